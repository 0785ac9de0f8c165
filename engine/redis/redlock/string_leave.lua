-- The lock that nobody waits for, before all that leave.lua needs for other cases, which
-- does the same for this one.

local both = redis.call('MGET', KEYS[1], KEYS[2])
if both[1] == ARGV[1] and ARGV[2] == '' and string.sub(both[2] or '', 67, 98) ~= ARGV[1]
	and redis.pcall('ZCARD', KEYS[3]) == 0 then
	redis.call('DEL', KEYS[1])
	return {2, 0}
end
