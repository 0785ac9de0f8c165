-- Takes the lock again for claims that a majority has just extended, and that
-- this master does not have: it has forgotten them, or never had them. Only what
-- is free is taken, and only until the moment to which the majority has proven the
-- hold: a request that comes later than that must not bring a lost claim back.
--
-- For each claim:
--   KEYS     the lock, what is beside it
--   ARGV     the claim's ID; its ticket; the number of this try; by this server's
--            clock in microseconds, until when it holds
--
-- The ticket is stamped as in phase 2: if no ticket as high was given here. If one
-- was, to somebody who was granted nothing, the claim has the lock here and no
-- stamp: what was stamped for another is not its own.
--
-- Returns how many it took.

local t = redis.call('TIME')
local now, took = t[1] * 1000000 + t[2], 0
for i = 1, #KEYS, 2 do
	local id, ticket, try, till = ARGV[2 * i - 1], tonumber(ARGV[2 * i]), tonumber(ARGV[2 * i + 1]), tonumber(ARGV[2 * i + 2])
	local left = math.min(math.floor((till - now) / 1000), LONGEST) -- the clock may have stepped back
	local b = unpacked(KEYS[i + 1], redis.call('MGET', KEYS[i + 1])[1])
	if b and b.evicted ~= id and left > 0 and take(KEYS[i], id, left) then
		if b.id ~= id then b.id, b.stamp, b.asked, b.owner = id, 0, 0, '' end
		if b.ticket < ticket then b.ticket, b.stamp = ticket, ticket end
		b.try, b.asked = math.max(b.try, try), math.max(b.asked, left)
		put(KEYS[i + 1], b)
		took = took + 1
	end
end
return took
