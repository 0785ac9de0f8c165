-- Extends a claim that holds.
--
--   ARGV[5]  the holder   ARGV[6]  the lifetime wanted in milliseconds

local h = ARGV[5]
local ok, who = holding()
if evicted(h) then return {3, record(h) or '0', 8} end
if not ok or who ~= h then return {3, '0', 0} end
local left, ticket = extended(h, redis.call('PTTL', lock), tonumber(ARGV[6]))
redis.call('PEXPIRE', lock, left)
return {2, ticket, left, wanted()}
