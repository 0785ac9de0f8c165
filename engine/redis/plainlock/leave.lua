-- Gives a plain lock up: compare and delete.
--
--   ARGV[1]  the claim's ID
--   ARGV[2]  1: a try of it may arrive yet
--
-- Returns as join.lua does: how it was found, held or gone.

-- include common.lua

local held = value == ARGV[1]
if held then redis.call('DEL', lock) end
if ARGV[2] == '1' then mark(ARGV[1]) end
if not held then return '3 0 0' end
if evicted == ARGV[1] then return '3 ' .. ticket .. ' 8' end
return '2 ' .. (id == ARGV[1] and ticket or '0') .. ' 0'
