-- Gives a claim up, and tells who waits.
--
--   ARGV[5]  the holder   ARGV[6]  1: a try of it may arrive yet

local h = ARGV[5]
local ok, who = holding()
local ticket, marked = record(h) or '0', evicted(h)
local held = ok and who == h
if held then
	tell('0')
	redis.call('DEL', lock)
end
redis.call('HDEL', side, h)
if ARGV[6] == '1' then void(h) end
if marked then return {3, ticket, 8} end
return {held and 2 or 3, ticket, 0}
