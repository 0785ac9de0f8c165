-- An exclusive lock, RLock or RFencedLock: a hash with one field, who holds, as
-- <uuid>:<thread>, and how many times. Its expiry is the deadline.

-- Reads who holds: its field and count, or nothing if it is free. ok is false if the
-- hash is something else. (A key of another type ends the script by WRONGTYPE.)
local function holding()
	local n = redis.call('HLEN', lock)
	if n == 0 then return true end
	if n > 1 then return false end
	local h = redis.call('HGETALL', lock)
	-- A transaction's holder has its number behind the thread's.
	if not (h[1]:find('^[^:]+:%-?%d+$') or h[1]:find('^[^:]+:%-?%d+:[%x-]+$')) then return false end
	if not h[2]:find('^%d+$') then return false end
	return true, h[1], h[2]
end
