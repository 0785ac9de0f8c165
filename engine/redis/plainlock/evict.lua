-- Ends the hold with a given ticket: by a mark that nothing extends, or at once.
-- Who holds it without a ticket (another program) cannot be named, so not ended.
--
--   KEYS[1]  the lock            ARGV[1]  the ticket in decimal
--   KEYS[2]  what is beside it   ARGV[2]  1: at once
--
-- Returns 1, or 0 if no such claim holds.

local value = redis.call('GET', KEYS[1])
local last = redis.call('HMGET', KEYS[2], 'ticket', 'id')
if not value or value ~= last[2] or last[1] ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[2], 'evicted', value)
if ARGV[2] == '1' then redis.call('DEL', KEYS[1]) end
return 1
