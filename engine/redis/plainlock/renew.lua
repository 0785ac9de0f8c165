-- Extends a plain lock that this claim holds, and never shortens it.
--
--   KEYS[1]  the lock            ARGV[1]  the claim's ID
--   KEYS[2]  what is beside it   ARGV[2]  the lifetime wanted in milliseconds
--
-- Returns as plain_join.lua does: held or gone.

local last = redis.call('HMGET', KEYS[2], 'ticket', 'id', 'evicted')
if last[3] == ARGV[1] then return {3, last[2] == ARGV[1] and last[1] or '0', 8} end
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {3, '0', 0} end
local left = redis.call('PTTL', KEYS[1])
if left < tonumber(ARGV[2]) then
	redis.call('PEXPIRE', KEYS[1], ARGV[2])
	redis.call('PEXPIRE', KEYS[2], ARGV[2] + KEEP / 1000)
	left = tonumber(ARGV[2])
end
return {2, last[2] == ARGV[1] and last[1] or '0', left}
