-- Extends a claim that holds, as lock_renew.lua does. The answer ends with 1 if it
-- reads.

local h = ARGV[5]
local ok, _, holds = holding()
if evicted(h) then return {3, record(h) or '0', 8} end
holds = ok and holds or {}
local reads = holds[h]
local has = -2
if reads then
	has = left(h, 1)
elseif holds[h .. ':write'] then
	has = redis.call('PTTL', lock)
end
if has == -2 then return {3, '0', 0} end
local ms, ticket = extended(h, has, tonumber(ARGV[6]))
if reads then redis.call('PEXPIRE', timeout(h, 1), ms) end
has = redis.call('PTTL', lock)
if not reads or has ~= -1 and has < ms then redis.call('PEXPIRE', lock, ms) end
return {2, ticket, ms, wanted(), reads and 1 or 0}
