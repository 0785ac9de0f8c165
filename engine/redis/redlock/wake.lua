-- Tells one of those who wait that the lock is free: who asked first, of those
-- that listen. Whoever is told is no longer noted, and notes itself again if
-- somebody else was faster. Who has died listens to nothing and costs one step.
--
--   KEYS[1]  the lock
--   KEYS[3]  who waits: a sorted set of claim ID .. channel, by when it asked

local function wake(name)
	for _ = 1, 100 do
		local first = redis.pcall('ZPOPMIN', KEYS[3]) -- an error, if it is somebody's data
		if first.err or not first[1] then return end
		local id, channel = string.sub(first[1], 1, 32), string.sub(first[1], 33)
		local heard = redis.pcall('PUBLISH', channel, id .. name) -- an error, if this user may not tell that channel
		if type(heard) == 'number' and heard > 0 then return end
	end
end
