-- Ends the hold with a given ticket: by a mark that nothing extends, or at once.
-- Other programs' holds have no ticket and see no mark: they are ended at once
-- only, as Redisson's forceUnlock does.
--
--   ARGV[1]  the ticket in decimal (0: other programs')   ARGV[2]  1: at once
--   ARGV[3]  the channel                                  ARGV[4]  1: of a Cluster
--
-- Returns 1; 0 if nobody holds so; 2 if another program's hold is not to be ended
-- so; 3 if what is stored is no such lock.

local ok, who = holding()
if not ok then return 3 end
if not who or (record(who) or '0') ~= ARGV[1] then return 0 end
if ARGV[1] == '0' then
	if ARGV[2] ~= '1' then return 2 end
else
	evict(who)
end
if ARGV[2] == '1' then
	tell(ARGV[3], '0', ARGV[4])
	redis.call('DEL', lock)
end
return 1
