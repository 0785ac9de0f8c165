-- Ends the hold with a given ticket: by a mark that nothing extends, or at once.
-- Another program's hold has no ticket, and is removed at once only: a string if it
-- has no expiry, because its program died before it set one; Redisson's in any case.
--
--   KEYS[1]  the lock            ARGV[1]  the ticket in decimal (0: none)
--   KEYS[2]  what is beside it   ARGV[2]  1: at once
--   KEYS[3]  who waits           ARGV[3]  the name
--
-- Returns 1, or 0 if no such claim holds here, or 2 if another program's hold is
-- not to be ended so.

local value = holder(KEYS[1])
if not value then return 0 end
local b = unpacked(KEYS[2], redis.call('MGET', KEYS[2])[1])
if not b then return foreign(2) end
if value ~= b.id then
	if ARGV[1] ~= '0' then return 0 end
	if ARGV[2] ~= '1' or not removable(KEYS[1]) then return 2 end
	tell(KEYS[1])
	redis.call('DEL', KEYS[1])
	wake(ARGV[3])
	return 1
end
if b.stamp == 0 or string.format('%.0f', b.stamp) ~= ARGV[1] then return 0 end
b.evicted = value
put(KEYS[2], b)
if ARGV[2] == '1' then
	tell(KEYS[1])
	redis.call('DEL', KEYS[1])
	wake(ARGV[3])
end
return 1
