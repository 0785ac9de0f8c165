-- Gives a claim up, as lock_leave.lua does, and tells who waits if nobody is left:
-- 0 after readers, upon which one Redisson client wakes one thread; 1 after a writer,
-- which wakes all, since readers may come together.

local h = ARGV[5]
local ok, _, holds = holding()
holds = ok and holds or {}
local ticket, marked = record(h) or '0', evicted(h)
local field, held = h, false
if holds[h] then
	held = left(h, 1) ~= -2
else
	field = h .. ':write'
	held = holds[field] ~= nil
end
if holds[field] then
	together(holds)
	out(holds, field)
	settle(holds, field == h and '0' or '1')
end
redis.call('HDEL', side, h)
if ARGV[6] == '1' then void(h) end
if marked then return {3, ticket, 8} end
return {held and 2 or 3, ticket, 0}
