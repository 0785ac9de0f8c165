-- Takes the lock if it is free. Trying again is the same call.
--
--   ARGV[5]  the holder that the claim is   ARGV[7]  its owner
--   ARGV[6]  its lifetime in milliseconds   ARGV[8]  a holder to leave in the same
--                                                    step, or nothing
--   ARGV[10] 1: a try of that one may arrive yet
--
-- A Join that is sent again must not count as Redisson's re-entry: it would take
-- two unlocks to free the lock. A claim is a holder of its own and enters once, so
-- its field being there says all, and is never counted up.

local h, want = ARGV[5], tonumber(ARGV[6])
local ok, who = holding()
if not ok then return {0, '0', 0} end

if left_before(h) then return {3, '0', 0} end
if evicted(h) then return {3, record(h) or '0', 8} end -- also if its claim is gone: a new one would be told at its first renewal
if who == h then
	local left, ticket = extended(h, redis.call('PTTL', lock), want)
	redis.call('PEXPIRE', lock, left)
	return {2, ticket, left, wanted()}
end

if who and who ~= ARGV[8] then
	replaced_is_void()
	local left = redis.call('PTTL', lock)
	local _, asked = record(who)
	if asked and left > asked then
		left = asked -- the clock stepped back, and its holder may be dead
		redis.call('PEXPIRE', lock, left)
	end
	return {1, '0', left}
end

if who and wanted() == 1 then -- a turn ends when somebody else waits
	tell('0')
	redis.call('DEL', lock)
	redis.call('HDEL', side, who)
	replaced_is_void()
	return {1, '0', -2}
end

local ticket, why = rise()
if not ticket then return {0, why, 0} end
forget()
redis.call('DEL', lock)
redis.call('HSET', lock, h, 1)
redis.call('PEXPIRE', lock, want)
note(h, ticket, want, ARGV[7])
replaced_is_void()
return {2, ticket, want, wanted()}
