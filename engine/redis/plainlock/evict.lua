-- Ends the hold with a given ticket: by a mark that nothing extends, or at once.
-- Another program's hold has no ticket. It ends by its expiry; where it has
-- none, because its program died before it set one, it is removed, at once only.
--
--   KEYS[1]  the lock            ARGV[1]  the ticket in decimal (0: none)
--   KEYS[2]  what is beside it   ARGV[2]  1: at once
--
-- Returns 1, or 0 if no such claim holds, or 2 if another program's hold is not
-- to be ended so.

local value = redis.call('GET', KEYS[1])
local last = redis.call('HMGET', KEYS[2], 'ticket', 'id')
if value and value ~= last[2] and ARGV[1] == '0' then
	if ARGV[2] ~= '1' or redis.call('PTTL', KEYS[1]) ~= -1 then return 2 end
	redis.call('DEL', KEYS[1])
	return 1
end
if not value or value ~= last[2] or last[1] ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[2], 'evicted', value)
if ARGV[2] == '1' then redis.call('DEL', KEYS[1]) end
return 1
