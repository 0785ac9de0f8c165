-- How a lock stands on a master, as Redisson has it: an RLock, which is a hash with
-- one field, <uuid>:<thread>, and how often that has entered. Of a claim of ours the
-- uuid is its ID, the thread is 1, and it enters once.

-- Programs with Redisson tell that a lock is free.
local ANNOUNCED = true

local function channel(lock)
	return 'redisson_lock__channel:' .. (lock:find('{', 1, true) and lock or '{' .. lock .. '}')
end

local function field(id)
	return id:sub(1, 8) .. '-' .. id:sub(9, 12) .. '-' .. id:sub(13, 16) .. '-' .. id:sub(17, 20) .. '-' .. id:sub(21) .. ':1'
end

-- Who has a lock: an ID in hexadecimal, or what another program stands as; nothing
-- where no such lock is. A transaction's holder has its number behind the thread's.
local function holding(lock)
	if redis.pcall('HLEN', lock) ~= 1 then return false end -- or an error: it is no hash
	local h = redis.call('HGETALL', lock)
	local who = h[1]
	if not h[2]:find('^%d+$') or not (who:find('^[^:]+:%-?%d+$') or who:find('^[^:]+:%-?%d+:[%x-]+$')) then return false end
	local id = who:sub(1, -3):gsub('-', '')
	if #id == 32 and field(id) == who then return id end
	return who
end

local function read(lock, side) return { holding(lock), redis.call('MGET', side)[1] } end

local function holder(lock)
	local who = holding(lock)
	if not who and redis.call('HLEN', lock) > 0 then redis.call('GET', lock) end -- one of the two is WRONGTYPE
	return who
end

-- A thread 1 of Redisson's, read as an ID, is shown as it stands.
local function shown(value) return value:find(':', 1, true) and value or field(value) end

local function take(lock, id, ms, over)
	if over then
		redis.call('DEL', lock)
	elseif redis.call('EXISTS', lock) == 1 then
		return false
	end
	redis.call('HSET', lock, field(id), 1)
	redis.call('PEXPIRE', lock, ms)
	return true
end

-- As by Redisson's forceUnlock.
local function removable(lock) return true end

-- Redisson's message is 0, which it reads as a number: so 00 is the same to it. Ours
-- do not try at 00: of them one at a time is told (wake.lua), and what is given up by
-- a try that failed would have all of them try again, and fail, and so on.
--
-- It comes before what it tells of: a user who may not publish is refused before
-- anything was changed, and nobody can look before the script has ended.
local function tell(lock) redis.call('PUBLISH', channel(lock), '00') end

-- Who waits listens. own: of those who do, how many are the asker itself. A user who
-- may not ask hears that nobody waits.
local function wanted(lock, own)
	local n = redis.pcall('PUBSUB', 'NUMSUB', channel(lock))
	return not n.err and n[2] > tonumber(own) and 1 or 0
end
