-- The holder that was not evicted, and of which no try may arrive yet, before all that
-- lock_leave.lua needs for other cases, which does the same for this one.

if ARGV[3] ~= '1' and ARGV[6] ~= '1' and redis.pcall('HLEN', KEYS[1]) == 1 and redis.call('HGET', KEYS[1], ARGV[5]) == '1' then
	local noted = redis.pcall('HGET', KEYS[2], ARGV[5])
	local ticket, asked = tostring(noted):match('^(%d+) (%d+) ')
	if ticket and #ticket <= 16 and #asked <= 12 and not redis.call('HGET', KEYS[2], 'evicted') then
		redis.call('PUBLISH', ARGV[2], '0')
		redis.call('DEL', KEYS[1])
		redis.call('HDEL', KEYS[2], ARGV[5])
		return {2, ticket, 0}
	end
end
