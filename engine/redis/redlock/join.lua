-- Takes the lock on this master if it is free, as SET NX PX would do it. Phase 1 of
-- an acquisition, or all of it.
--
--   KEYS[1]  the lock, see string.lua and redisson.lua
--   KEYS[2]  what is beside it, see beside.lua
--   KEYS[3]  who waits, see wake.lua
--   ARGV[1]  the claim's ID in hexadecimal
--   ARGV[2]  its lifetime in milliseconds
--   ARGV[3]  its owner
--   ARGV[4]  the ID of a claim whose place it takes, or nothing
--   ARGV[5]  the number of this try
--   ARGV[6]  the ticket that it proposes, or 0
--   ARGV[7]  the channel to tell if it has to wait, or nothing
--   ARGV[8]  when it began to wait
--   ARGV[9]  of those who listen to the lock's channel, how many are the asker
--
-- Returns held (2), its stamp, the counter, the milliseconds granted, the
-- server's clock in microseconds, and 1 if it is seen that somebody else waits; or
-- waiting (1), whether a leasehold holds (1), or another program that will tell of its
-- end (2) or will not (0), 0, the milliseconds that are left (-1: no expiry; -2: its
-- turn is over); or gone (3): evicted.

local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local both = read(KEYS[1], KEYS[2])
local value, b = both[1], unpacked(KEYS[2], both[2])
local id, want, try = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[5])
if not b then return foreign(2) end

-- Also if its lock is gone: a new one would be told of that at its first renewal.
if b.evicted == id then return {3, 0, 0, 0, now, 0} end
if value == id then
	-- Another try of the same claim. The key's expiry is never put earlier,
	-- except where a clock that stepped back put it further away than this claim
	-- ever asked for. The number of the try only rises: what an earlier one gives
	-- up later must not take the lock from this one.
	if b.id ~= id then b.id, b.stamp, b.try, b.asked, b.owner = id, 0, 0, 0, ARGV[3] end
	b.asked, b.try = math.max(b.asked, want), math.max(b.try, try)
	local left = math.min(math.max(redis.call('PTTL', KEYS[1]), want), b.asked)
	redis.call('PEXPIRE', KEYS[1], left)
	put(KEYS[2], b)
	return {2, b.stamp, b.ticket, left, now, wanted(KEYS[1], ARGV[9])}
end
-- An empty ARGV[4] names no claim. Another program's lock may have the empty value, and
-- is held like any other.
if value and (value == '' or value ~= ARGV[4]) then
	local left, ours = redis.call('PTTL', KEYS[1]), value == b.id
	if ours and left > b.asked then
		left = b.asked -- the clock stepped back, and its holder may be dead
		redis.call('PEXPIRE', KEYS[1], left)
	end
	if ARGV[7] ~= '' then
		local waiting = redis.pcall('ZCARD', KEYS[3])
		if type(waiting) == 'table' then return foreign(3) end
		if waiting < 10000 then
			redis.call('ZADD', KEYS[3], 'NX', ARGV[8], id .. ARGV[7])
			redis.call('PEXPIRE', KEYS[3], math.max(redis.call('PTTL', KEYS[3]), want))
		end
	end
	return {1, ours and 1 or ANNOUNCED and 2 or 0, 0, left, now, 0}
end
if value and wanted(KEYS[1], ARGV[9]) == 1 then -- a turn ends when somebody else waits
	tell(KEYS[1])
	redis.call('DEL', KEYS[1])
	wake(KEYS[1])
	return {1, 0, 0, -2, now, 0}
end
if not take(KEYS[1], id, want, value) then return foreign(1) end
-- The ticket that is proposed counts if it is above the counter; and not far from
-- this server's clock, or one client with a wrong idea of it could use the
-- numbers up.
b.stamp = tonumber(ARGV[6])
if b.stamp > b.ticket and math.abs(b.stamp - now) < NEAR then b.ticket = b.stamp else b.stamp = 0 end
b.try, b.asked, b.id, b.owner = try, want, id, ARGV[3]
put(KEYS[2], b)
return {2, b.stamp, b.ticket, want, now, wanted(KEYS[1], ARGV[9])}
