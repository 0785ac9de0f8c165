-- Reads who holds, for inspection.
--
-- Returns a list of holders: the field, its count, the milliseconds left (-1: no
-- deadline), the ticket (0: another program's), the owner, 1 if it was evicted;
-- or 0 if what is stored is no such lock.

local ok, who, count = holding()
if not ok then return 0 end
if not who then return {} end
local left = redis.call('PTTL', lock)
local ticket, asked, owner = record(who)
if ticket then left = math.min(left, asked) end
return {{who, count, left, ticket or '0', owner or '', evicted(who) and 1 or 0}}
