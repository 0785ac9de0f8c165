-- Reads a lock on this master for inspection.
--
--   KEYS[1]  the lock            KEYS[2]  what is beside it
--
-- Returns nothing if it is free; else its value, the milliseconds it has left
-- (-1: no expiry), the ticket (0: another program's, or not stamped here), the
-- owner, and 1 if it was evicted.

local value = holder(KEYS[1])
if not value then return {} end
local b, left = unpacked(KEYS[2], redis.call('MGET', KEYS[2])[1]), redis.call('PTTL', KEYS[1])
if not b then return foreign(2) end
if value ~= b.id then return {shown(value), left, 0, '', 0} end
return {value, math.min(left, b.asked), b.stamp, b.owner, b.evicted == value and 1 or 0}
