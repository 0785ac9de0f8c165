-- Extends a plain lock that this claim holds, and never shortens it, except
-- where a clock that stepped back put its expiry further away than this claim
-- ever asked for.
--
--   ARGV[1]  the claim's ID
--   ARGV[2]  the lifetime wanted in milliseconds
--
-- Returns as join.lua does: held or gone.

-- include common.lua

if evicted == ARGV[1] then return '3 ' .. (id == ARGV[1] and ticket or '0') .. ' 8' end
if value ~= ARGV[1] then return '3 0 0' end
local want = tonumber(ARGV[2])
local ends = math.max(remaining(), want)
if id ~= ARGV[1] then -- what was beside the lock is lost, and what was asked before with it
	redis.call('PEXPIRE', lock, ends)
	return '2 0 ' .. want
end
asked = math.max(asked, want)
ends = math.min(ends, asked)
redis.call('PEXPIRE', lock, ends)
redis.call('HSET', side, 'asked', asked)
redis.call('PEXPIRE', side, asked + KEEP / 1000)
return '2 ' .. ticket .. ' ' .. ends
