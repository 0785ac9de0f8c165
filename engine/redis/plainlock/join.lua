-- Takes a plain lock: the key is set to the claim's ID if it is absent, as SET
-- NX PX would do it. Trying again is the same call.
--
--   KEYS[1]  the lock: a string, whose value is its holder's secret
--   KEYS[2]  beside it: a hash with the last ticket, its claim's ID, owner and
--            the longest lifetime it asked for (in milliseconds), and the ID of
--            a claim that was evicted
--   ARGV[1]  the claim's ID in hexadecimal
--   ARGV[2]  its lifetime in milliseconds
--   ARGV[3]  its owner
--   ARGV[4]  the ID of a claim to leave in the same step, or nothing
--
-- Returns three numbers in a text: held (2), the ticket, and the milliseconds
-- granted; or waiting (1), 0, and the milliseconds the key has left (-1: no
-- expiry); or gone (3), the ticket, and 8: evicted.

local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local value = redis.call('GET', KEYS[1])
local last = redis.call('HMGET', KEYS[2], 'ticket', 'id', 'evicted', 'asked')
local want = tonumber(ARGV[2])

if value == ARGV[1] and last[2] == ARGV[1] then
	-- A retry of a Join whose answer was lost. The key's expiry is never put
	-- earlier, except where a clock that stepped back put it further away than
	-- this claim ever asked for.
	if last[3] == ARGV[1] then return '3 ' .. last[1] .. ' 8' end
	local asked = math.max(tonumber(last[4]), want)
	local left = math.min(math.max(redis.call('PTTL', KEYS[1]), want), asked)
	redis.call('PEXPIRE', KEYS[1], left)
	redis.call('HSET', KEYS[2], 'asked', asked)
	return '2 ' .. last[1] .. ' ' .. left
end
if value and value ~= ARGV[1] and value ~= ARGV[4] then
	local left = redis.call('PTTL', KEYS[1])
	if value == last[2] and left > tonumber(last[4]) then
		left = tonumber(last[4]) -- the clock stepped back, and its holder may be dead
		redis.call('PEXPIRE', KEYS[1], left)
	end
	return '1 0 ' .. left
end
-- Programs that know nothing of tickets may have held it since; the clock has
-- gone on meanwhile, and the ticket with it.
local ticket = math.max((tonumber(last[1]) or 0) + 1, now)
if ticket > 9007199254740991 then return '3 0 0' end
local text = string.format('%.0f', ticket)
redis.call('SET', KEYS[1], ARGV[1], 'PX', want)
redis.call('HSET', KEYS[2], 'ticket', text, 'id', ARGV[1], 'owner', ARGV[3], 'asked', want)
redis.call('PEXPIRE', KEYS[2], want + KEEP / 1000)
return '2 ' .. text .. ' ' .. want
