-- Extends locks that their claims hold on this master, and never shortens one,
-- except where a clock that stepped back put its expiry further away than its
-- claim ever asked for.
--
-- For each claim:
--   KEYS     the lock, what is beside it
--   ARGV     the claim's ID, the lifetime wanted in milliseconds; after all of those,
--            of each: of who listens to the lock's channel, how many are the asker
--
-- Returns for each: held (2), its stamp, the milliseconds granted; or gone (3),
-- 0, and 1 if it was evicted. Then the server's clock in microseconds; and of which
-- of the claims, counted from 1, it is seen that somebody else waits.

local out, contended = {}, {}
for i = 1, #KEYS, 2 do
	local lock, id, want = KEYS[i], ARGV[i], tonumber(ARGV[i + 1])
	local both = read(lock, KEYS[i + 1]) -- nothing for what is somebody else's data by now
	local b = unpacked(KEYS[i + 1], both[2]) or {}
	local state, first, second = 3, 0, 0
	if b.evicted == id then
		second = 1
	elseif both[1] == id then
		-- Where what was beside the lock is lost, what was asked before is with it.
		local left = want
		if b.id == id then
			b.asked = math.max(b.asked, want)
			-- This vote counts. The lock here may be that of an earlier try, which failed.
			-- What that gives up may come after this, and must not take the vote back.
			b.try = 9007199254740991
			left = math.min(math.max(redis.call('PTTL', lock), want), b.asked)
			put(KEYS[i + 1], b)
		end
		redis.call('PEXPIRE', lock, left)
		state, first, second = 2, b.id == id and b.stamp or 0, left
		if wanted(lock, ARGV[#KEYS + (i + 1) / 2]) == 1 then contended[#contended + 1] = (i + 1) / 2 end
	end
	local n = #out
	out[n + 1], out[n + 2], out[n + 3] = state, first, second
end
local t = redis.call('TIME')
out[#out + 1] = t[1] * 1000000 + t[2]
for _, k in ipairs(contended) do out[#out + 1] = k end
return out
