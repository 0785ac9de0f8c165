-- Gives one claim up, held or waiting, and says in which state it was found.
--
--   KEYS[1]  the line
--   ARGV[1]  ID, 16 bytes
--
-- Returns what say() packs, or, for a claim that held, as it is stored: ticket,
-- flags, units, limit, and one more byte if somebody was waiting. A key that is
-- not ours holds no claim.

local key, id = KEYS[1], ARGV[1]
local m = redis.pcall('HGET', key, 'm')
if type(m) == 'table' then
	if not string.find(m.err, 'WRONGTYPE', 1, true) then return m end
	m = false
end
if not m then return struct.pack('>BI8I4I4I8I8', 3, 0, 0, 0, 0, 0) end
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]

-- The only claim there is goes: the uncontended lock. Where there is no memory
-- for the write, the key goes instead: it must always be possible to leave, and
-- the clock alone then lets tickets rise.
if string.byte(m) == 83 and #m > 66 and string.sub(m, 51, 66) == id then
	local done = redis.pcall('HSET', key, 'm', 'E' .. string.sub(m, 2, 17))
	if type(done) == 'table' then
		if not string.find(done.err, 'OOM', 1, true) then return done end
		redis.call('DEL', key)
	end
	if struct.unpack('>I8', m, 18) <= now then return struct.pack('>BI8I4I4I8I8', 3, 0, 0, 0, 0, 0) end
	return string.sub(m, 34, 50)
end

-- The holder of a contended lock goes and hands over to the next. Nobody has
-- expired, nor has the clock stepped back, so this is all there is to do; whatever is less simple goes the long
-- way, which does the same for this case and costs several times as much.
if string.byte(m) == 81 and #m == 106 and string.sub(m, 66, 81) == id then
	local nextid, none = string.sub(m, 82, 97), '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'
	local soonest, seen = struct.unpack('>I8I8', m, 18)
	local theirs = nextid ~= none and now < soonest and seen <= now and redis.call('HGET', key, nextid)
	if theirs and #theirs >= 62 and #theirs >= 62 + string.byte(theirs, 62) then
		local limit = string.sub(m, 54, 57)
		local behind = string.sub(theirs, 1, 16)
		local last = behind == none -- nobody waits any more, so one holder is untold
		redis.call('HDEL', key, id)
		redis.call('HSET', key, 'm', string.sub(m, 1, 49) .. (last and '\0\0\0\1' or '\0\0\0\0')
			.. string.sub(m, 54, 65) .. nextid .. behind .. string.sub(theirs, 33, 41))
		redis.pcall('PUBLISH', string.sub(theirs, 63, 62 + string.byte(theirs, 62)), nextid .. (last and '\2' or '\6')
			.. string.sub(theirs, 33, 40) .. string.sub(theirs, 42, 45) .. limit .. key)
		return string.sub(m, 98) .. limit .. limit .. '\1' -- it takes the whole limit
	end
end

-- include line.lua

local r = say(3, false, false, 0, 0, 0, 0, 0)
local l = open(key, m)
if not l then return r end
local p = get(l, id)
if p then
	if p.deadline > now then
		-- As it was before this call: settling first could only turn a claim
		-- nobody was told of into a held one, for nothing.
		local state = p.evicted and 3 or p.held and 2 or 1
		r = say(state, contended(l, p), p.evicted, p.ticket, p.units, l.limit, 0, 0)
	end
	remove(l, p)
end
settle(l, now, id)
store(l, false)
return r
