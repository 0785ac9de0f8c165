-- Ends the hold with a given ticket: by a mark that nothing extends, or at once.
-- Another program's hold has no ticket. It ends by its expiry; where it has
-- none, because its program died before it set one, it is removed, at once only.
--
--   ARGV[1]  the ticket in decimal (0: none)
--   ARGV[2]  1: at once
--
-- Returns 1, or 0 if no such claim holds, or 2 if another program's hold is not
-- to be ended so.

-- include common.lua

if junk then return redis.error_reply('BESIDE ' .. junk) end
if value and value ~= id and ARGV[1] == '0' then
	if ARGV[2] ~= '1' or remaining() ~= -1 then return 2 end
	redis.call('DEL', lock)
	return 1
end
if not value or value ~= id or ticket ~= ARGV[1] then return 0 end
redis.call('HSET', side, 'evicted', value)
if ARGV[2] == '1' then redis.call('DEL', lock) end
return 1
