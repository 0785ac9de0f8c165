-- Whether what the run before this one wrote is still there: asked only of a server
-- that syncs every write. The mark of a run is part of what was written; a server
-- that comes up without it has lost something, whatever it is set to.
--
--   KEYS[1]  the mark: a hash with the run that was looked at last, and what was
--            found then
--   ARGV[1]  the run that is looked at now
--
-- Returns 1 if the run before was looked at as well, and had its writes synced.

local mark = redis.call('HMGET', KEYS[1], 'run', 'survived')
if mark[1] == ARGV[1] then return tonumber(mark[2]) end
local survived = mark[1] and 1 or 0
redis.call('HSET', KEYS[1], 'run', ARGV[1], 'survived', survived)
return survived
