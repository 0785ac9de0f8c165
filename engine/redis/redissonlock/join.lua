-- Takes the lock if it is free. Trying again is the same call.
--
--   ARGV[1]  the holder that the claim is   ARGV[3]  its owner
--   ARGV[2]  its lifetime in milliseconds   ARGV[4]  a holder to leave in the same
--                                                    step, or nothing
--
-- A Join that is sent again must not count as Redisson's re-entry: it would take
-- two unlocks to free the lock. A claim is one holder and enters once, so that its
-- field is there says all: it is never counted up.

local h, want = ARGV[1], tonumber(ARGV[2])
local ok, who = holding()
if not ok then return {0, '0', 0} end

if who == h then
	local ticket, asked, owner = record(h)
	if evicted(h) then return {3, ticket or '0', 8} end
	local left = math.max(redis.call('PTTL', lock), want)
	if ticket then
		-- The deadline is never put earlier, except where a clock that stepped back
		-- put it further away than this claim ever asked for.
		asked = math.max(asked, want)
		left = math.min(left, asked)
		note(h, ticket, asked, owner)
	end
	redis.call('PEXPIRE', lock, left)
	return {2, ticket or '0', left}
end

if who and who ~= ARGV[4] then
	local left = redis.call('PTTL', lock)
	local ticket, asked = record(who)
	if ticket and left > asked then
		left = asked -- the clock stepped back, and its holder may be dead
		redis.call('PEXPIRE', lock, left)
	end
	return {1, '0', left}
end

local ticket = rise()
if not ticket then return {0, '1', 0} end
for _, field in ipairs(redis.call('HKEYS', side)) do -- one holds: whatever is known of others is over
	if field ~= 'last' and field ~= 'evicted' then redis.call('HDEL', side, field) end
end
redis.call('DEL', lock)
redis.call('HSET', lock, h, 1)
redis.call('PEXPIRE', lock, want)
note(h, ticket, want, ARGV[3])
return {2, ticket, want}
