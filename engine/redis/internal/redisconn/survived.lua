-- The mark, and what it says of the run that is looked at. It is part of what was
-- written: a server that comes up without it has lost something, whatever it is set
-- to. Behind run.lua, so that no later run than it names ever has it.
--
--   KEYS[1]  the mark, a hash. run: the one that was looked at last, if it syncs every
--            write; survived: what was found then; off: until when, by this server's
--            clock in milliseconds, a run that does not sync grants nothing
--   ARGV[1]  the run that is looked at now
--   ARGV[2]  1: it syncs every write
--   ARGV[3]  the delay in milliseconds
--
-- Returns -1 if nothing was forgotten: the run before was looked at as well, and had
-- its writes synced. Else the milliseconds from now for which this one grants nothing,
-- whenever it was started.

local mark = redis.call('HMGET', KEYS[1], 'run', 'survived', 'off')
local marked, survived, off = mark[1] or '', mark[2], tonumber(mark[3] or 0)
if ARGV[2] == '1' then
	if marked ~= ARGV[1] then
		survived = marked ~= '' and '1' or '0'
		redis.call('HSET', KEYS[1], 'run', ARGV[1], 'survived', survived, 'off', 0)
	end
	return survived == '1' and -1 or 0
end
-- That the mark is taken away is written into a server that may lose it again, and
-- the next run would find the mark: what this one grants must not be lost with it.
-- That is so whoever asks, and those who look later learn it from off.
local t, delay = redis.call('TIME'), tonumber(ARGV[3])
local now = t[1] * 1000 + math.floor(t[2] / 1000)
if marked ~= '' then
	off = now + delay
	redis.call('HSET', KEYS[1], 'run', '', 'survived', 0, 'off', string.format('%.0f', off))
end
return math.max(0, math.min(off - now, delay)) -- the clock may have stepped back
