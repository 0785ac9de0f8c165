-- Extends a plain lock that this claim holds, and never shortens it, except
-- where a clock that stepped back put its expiry further away than this claim
-- ever asked for.
--
--   KEYS[1]  the lock            ARGV[1]  the claim's ID
--   KEYS[2]  what is beside it   ARGV[2]  the lifetime wanted in milliseconds
--
-- Returns as join.lua does: held or gone.

local last = redis.call('HMGET', KEYS[2], 'ticket', 'id', 'evicted', 'asked')
if last[3] == ARGV[1] then return '3 ' .. (last[2] == ARGV[1] and last[1] or '0') .. ' 8' end
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return '3 0 0' end
local want = tonumber(ARGV[2])
local left = math.max(redis.call('PTTL', KEYS[1]), want)
if last[2] ~= ARGV[1] then -- what was beside the lock is lost, and what was asked before with it
	redis.call('PEXPIRE', KEYS[1], left)
	return '2 0 ' .. want
end
local asked = math.max(tonumber(last[4]), want)
left = math.min(left, asked)
redis.call('PEXPIRE', KEYS[1], left)
redis.call('HSET', KEYS[2], 'asked', asked)
redis.call('PEXPIRE', KEYS[2], asked + KEEP / 1000)
return '2 ' .. last[1] .. ' ' .. left
