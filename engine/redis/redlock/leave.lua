-- Gives the lock up on this master: compare and delete.
--
--   KEYS[1]  the lock            ARGV[1]  the claim's ID
--   KEYS[2]  what is beside it   ARGV[2]  for good (nothing), or what this try made
--   KEYS[3]  who waits           ARGV[3]  the channel that it waits on, or nothing
--                                ARGV[4]  the name
--
-- Returns how it was found: held (2), or gone (3) and 1 if it was evicted. A try
-- that failed gives up nothing that a later one of the same claim, or a renewal, relies
-- on. It tells none of ours: those who wait are about to try as well, at different times.
--
-- A claim that is left for good is not noted any more, or the next release would
-- be announced to it: one that tried at its own time may hold, noted as waiting. If
-- it is neither noted nor holds while the lock is free, it was told of that, and
-- tells the next one.

local both = read(KEYS[1], KEYS[2])
local id, noted = ARGV[1], 0
if ARGV[3] ~= '' then noted = redis.pcall('ZREM', KEYS[3], id .. ARGV[3]) end -- an error, if it is somebody's data
if both[1] ~= id then
	if noted == 0 and not both[1] and ARGV[3] ~= '' then wake(ARGV[4]) end
	return {3, 0}
end
local b = unpacked(KEYS[2], both[2]) or {}
if ARGV[2] ~= '' then
	if b.id == id and b.try <= tonumber(ARGV[2]) then
		tell(KEYS[1])
		redis.call('DEL', KEYS[1])
	end
	return {2, 0}
end
tell(KEYS[1])
redis.call('DEL', KEYS[1])
wake(ARGV[4])
if b.evicted == id then return {3, 1} end
return {2, 0}
