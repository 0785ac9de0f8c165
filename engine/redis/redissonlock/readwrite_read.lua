-- Reads who holds, for inspection, as lock_read.lua does.

local ok, _, holds = holding()
if not ok then return 0 end
local list = {}
for field, count in pairs(holds or {}) do
	local h = writer(field) or field
	local has = writer(field) and redis.call('PTTL', lock) or left(field, count)
	local ticket, asked, owner = record(h)
	if ticket then has = math.min(has, asked) end
	if has ~= -2 then
		list[#list + 1] = {field, tostring(count), has, ticket or '0', owner or '', evicted(h) and 1 or 0}
	end
end
return list
