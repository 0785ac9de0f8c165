-- Reads a plain lock for inspection.
--
--   KEYS[1]  the lock            KEYS[2]  what is beside it
--
-- Returns nothing if it is free; else, in a text, the milliseconds it has left
-- (-1: no expiry), the ticket (0: another program's), and 1 if it was evicted,
-- and on the lines behind them the owner.

local value = redis.call('GET', KEYS[1])
if not value then return '' end
local last = redis.call('HMGET', KEYS[2], 'ticket', 'id', 'owner', 'evicted', 'asked')
local left = redis.call('PTTL', KEYS[1])
if value ~= last[2] then return left .. ' 0 0\n' end
return math.min(left, tonumber(last[5])) .. ' ' .. last[1] .. (last[4] == value and ' 1' or ' 0') .. '\n' .. (last[3] or '')
