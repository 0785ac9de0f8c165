-- Gives a plain lock up: compare and delete.
--
--   KEYS[1]  the lock            ARGV[1]  the claim's ID
--   KEYS[2]  what is beside it
--
-- Returns as join.lua does: how it was found, held or gone.

if redis.call('GET', KEYS[1]) ~= ARGV[1] then return '3 0 0' end
redis.call('DEL', KEYS[1])
local last = redis.call('HMGET', KEYS[2], 'ticket', 'id', 'evicted')
if last[3] == ARGV[1] then return '3 ' .. last[1] .. ' 8' end
return '2 ' .. (last[2] == ARGV[1] and last[1] or '0') .. ' 0'
