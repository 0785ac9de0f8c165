-- How a lock stands on a master, as redsync has it: a string, whose value is its
-- holder's secret. Of a claim of ours that is its ID in hexadecimal.

-- Programs other than leasehold tell nobody that a lock is free.
local ANNOUNCED = false

-- Who has a lock (nothing where no such lock is), and what is beside it.
local function read(lock, side) return redis.call('MGET', lock, side) end

-- Who has a lock. What is no such lock ends the script.
local function holder(lock) return redis.call('GET', lock) end

-- What is shown of a holder that is not a claim.
local function shown(value) return value end

-- Takes a lock for a claim, over who has it if that is said. False: what is there is
-- no such lock, or somebody has it.
local function take(lock, id, ms, over) return redis.call('SET', lock, id, 'PX', ms, over and 'XX' or 'NX') end

-- Whether another program's hold may be removed: only if it would never end.
local function removable(lock) return redis.call('PTTL', lock) == -1 end

-- Tells other programs that the lock is free.
local function tell(lock) end

-- 1 if it is seen that somebody else waits.
local function wanted(lock, own) return 0 end
