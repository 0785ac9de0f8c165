-- Extends a claim that holds, and never shortens it, except where a clock that
-- stepped back put its deadline further away than it ever asked for.
--
--   ARGV[1]  the holder   ARGV[2]  the lifetime wanted in milliseconds

local h, want = ARGV[1], tonumber(ARGV[2])
local ok, who = holding()
local ticket, asked, owner = record(h)
if evicted(h) then return {3, ticket or '0', 8} end
if not ok or who ~= h then return {3, '0', 0} end
local left = math.max(redis.call('PTTL', lock), want)
if ticket then
	asked = math.max(asked, want)
	left = math.min(left, asked)
	note(h, ticket, asked, owner)
end
redis.call('PEXPIRE', lock, left)
return {2, ticket or '0', left}
