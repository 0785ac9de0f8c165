-- Ends the hold with a given ticket: by a mark that nothing extends, or at once.
-- Other programs' holds have no ticket and see no mark: they are ended at once
-- only, as Redisson's forceUnlock does.
--
--   ARGV[5]  the ticket in decimal (0: other programs')   ARGV[6]  1: at once
--
-- Returns 1; 0 if nobody holds so; 2 if another program's hold is not to be ended
-- so; 3 if what is stored is no such lock.

local ok, who = holding()
if not ok then return 3 end
if not who or (record(who) or '0') ~= ARGV[5] then return 0 end
if ARGV[5] ~= '0' then
	evict(who, {})
elseif ARGV[6] ~= '1' then
	return 2
end
if ARGV[6] == '1' then
	tell('0')
	redis.call('DEL', lock)
end
return 1
