-- Ends holds, as lock_evict.lua does: with ticket 0 all that other programs have.

local ok, mode, holds = holding()
if not ok then return 3 end
local found = {}
for field in pairs(holds or {}) do
	if (record(writer(field) or field) or '0') == ARGV[5] then found[#found + 1] = field end
end
if #found == 0 then return 0 end
if ARGV[6] == '1' then together(holds) end
if ARGV[5] ~= '0' then
	evict(writer(found[1]) or found[1], holds)
elseif ARGV[6] ~= '1' then
	return 2
end
if ARGV[6] == '1' then
	for _, field in ipairs(found) do out(holds, field) end
	settle(holds, mode == 'write' and '1' or '0')
end
return 1
