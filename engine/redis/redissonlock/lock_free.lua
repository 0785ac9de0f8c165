-- The lock that nobody has and whose last holder left nothing beside it, before all that
-- lock_join.lua needs for other cases: a script spends more time on making its functions
-- than this takes. It does the same for this case; what is less simple goes on there.

if KIND == 'lock' and ARGV[3] ~= '1' and ARGV[10] ~= '1' and redis.pcall('HLEN', KEYS[1]) == 0 then
	local known = redis.pcall('HLEN', KEYS[2])
	local last = known == 0 and '0' or known == 1 and redis.call('HGET', KEYS[2], 'last')
	local t = redis.call('TIME')
	if last and #last <= 16 and last:find('^%d+$') then
		local ticket, h, want = math.max(last + 1, t[1] * 1000000 + t[2]), ARGV[5], ARGV[6]
		if ticket <= 9007199254740991 then
			ticket = string.format('%.0f', ticket)
			redis.call('HSET', KEYS[2], 'last', ticket, h, ticket .. ' ' .. want .. ' ' .. ARGV[7])
			redis.call('PEXPIRE', KEYS[2], want + KEEP)
			redis.call('HSET', KEYS[1], h, 1)
			redis.call('PEXPIRE', KEYS[1], want)
			local n = redis.pcall('PUBSUB', 'NUMSUB', ARGV[2])
			return {2, ticket, tonumber(want), not n.err and n[2] > tonumber(ARGV[4]) and 1 or 0}
		end
	end
end
