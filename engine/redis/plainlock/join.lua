-- Takes a plain lock: the key is set to the claim's ID if it is absent, as SET
-- NX PX would do it. Trying again is the same call.
--
--   ARGV[1]  the claim's ID in hexadecimal
--   ARGV[2]  its lifetime in milliseconds
--   ARGV[3]  its owner
--   ARGV[4]  the ID of a claim to leave in the same step, or nothing
--   ARGV[5]  1: a try of that one may arrive yet
--
-- Returns three numbers in a text: held (2), the ticket, and the milliseconds
-- granted; or waiting (1), 0, and the milliseconds the key has left (-1: no
-- expiry); or gone (3), the ticket, and 8: evicted; or 0: the clock is absurd.

-- include common.lua

local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local want = tonumber(ARGV[2])

if left and string.find(left, ARGV[1], 1, true) then return '3 0 0' end
-- Also if its key is gone: a new one would be told of that at its first renewal.
if evicted == ARGV[1] then return '3 ' .. (id == ARGV[1] and ticket or '0') .. ' 8' end
if value == ARGV[1] and id == ARGV[1] then
	-- A retry of a Join whose answer was lost. The key's expiry is never put
	-- earlier, except where a clock that stepped back put it further away than
	-- this claim ever asked for.
	asked = math.max(asked, want)
	local ends = math.min(math.max(remaining(), want), asked)
	redis.call('PEXPIRE', lock, ends)
	redis.call('HSET', side, 'asked', asked)
	return '2 ' .. ticket .. ' ' .. ends
end
if junk then return redis.error_reply('BESIDE ' .. junk) end
if value and value ~= ARGV[1] and value ~= ARGV[4] then
	local ends = remaining()
	if value == id and ends > asked then
		ends = asked -- the clock stepped back, and its holder may be dead
		redis.call('PEXPIRE', lock, ends)
	end
	if ARGV[5] == '1' then mark(ARGV[4]) end
	return '1 0 ' .. ends
end
-- Programs that know nothing of tickets may have held it since; the clock has
-- gone on meanwhile, and the ticket with it.
if now > 9007199254740991 then return '0 0 0' end
local text = string.format('%.0f', math.max((tonumber(ticket) or 0) + 1, now))
redis.call('SET', lock, ARGV[1], 'PX', want)
redis.call('HSET', side, 'ticket', text, 'id', ARGV[1], 'owner', ARGV[3], 'asked', want)
redis.call('PEXPIRE', side, want + KEEP / 1000)
if ARGV[5] == '1' then mark(ARGV[4]) end
return '2 ' .. text .. ' ' .. want
