-- Gives a claim up, and tells who waits.
--
--   ARGV[1]  the holder   ARGV[2]  the channel   ARGV[3]  1: of a Cluster

local h = ARGV[1]
local ok, who = holding()
local ticket = record(h)
local marked = evicted(h)
if ok and who == h then
	tell(ARGV[2], '0', ARGV[3])
	redis.call('DEL', lock)
else
	who = nil
end
redis.call('HDEL', side, h)
if marked then return {3, ticket or '0', 8} end
return {who and 2 or 3, ticket or '0', 0}
