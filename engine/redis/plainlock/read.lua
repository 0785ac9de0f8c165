-- Reads a plain lock for inspection.
--
-- Returns nothing if it is free; else, in a text, the milliseconds it has left
-- (-1: no expiry), the ticket (0: another program's), and 1 if it was evicted,
-- and on the lines behind them the owner.

-- include common.lua

if junk then return redis.error_reply('BESIDE ' .. junk) end
if not value then return '' end
local ends = remaining()
if value ~= id then return ends .. ' 0 0\n' end
return math.min(ends, asked) .. ' ' .. ticket .. (evicted == value and ' 1' or ' 0') .. '\n' .. (owner or '')
