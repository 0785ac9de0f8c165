-- A RReadWriteLock: a hash with the field mode, read or write, and of each reader
-- <uuid>:<thread>, of the writer <uuid>:<thread>:write, and how many times it
-- entered. Redisson's writer may read too; ours does not.
--
-- The hash's expiry is the writer's deadline, or the last of the readers'. Each
-- entry of a reader has its own, on a key <holder>:rwlock_timeout:<n>: one that
-- died stays in the hash for as long as others keep it, and does not count.

-- Reads the mode, and who holds how many times; nothing if it is free. ok is false if
-- the hash is something else.
local function holding()
	local n = redis.call('HLEN', lock)
	if n == 0 then return true end
	if n > 10001 then return false end -- not worth reading
	local mode, holds, entries = false, {}, 0
	local all = redis.call('HGETALL', lock)
	for i = 1, #all, 2 do
		local field, value = all[i], all[i + 1]
		if field == 'mode' then
			mode = value
		elseif (field:find('^[^:]+:%-?%d+$') or field:find('^[^:]+:%-?%d+:write$')) and value:find('^%d+$') and tonumber(value) <= 10000 then
			holds[field] = tonumber(value)
			entries = entries + holds[field]
		else
			return false
		end
	end
	if mode ~= 'read' and mode ~= 'write' or entries > 20000 then return false end -- each is looked at
	return true, mode, holds
end

local function timeout(h, n) return ARGV[1] .. h .. ':rwlock_timeout:' .. n end

-- The milliseconds a reader has left; -1: no deadline; -2: it is past.
--
-- The key is not among KEYS: nobody knows it before. So while a Cluster moves the slot,
-- a node reads one that is still at the other node as if it had expired, and a living
-- reader would be dead. A command of two keys is an error there, unless the node has
-- both: then nothing is learned, and the caller asks again. That it is none tells that
-- the slot stands, so it is asked once.
local stands = ARGV[3] ~= '1'
local function left(h, count)
	local most = -2
	for n = 1, count do
		local one = redis.call('PTTL', timeout(h, n))
		if one == -2 and not stands then
			redis.call('EXISTS', lock, timeout(h, n))
			stands = true
		end
		if one == -1 then return -1 end
		most = math.max(most, one)
	end
	return most
end

local function writer(field) return field:match('^(.*):write$') end

-- Looks at every deadline, so that one at another node is an error before anything is
-- changed.
local function together(holds)
	for field, count in pairs(stands and {} or holds) do
		if not writer(field) then left(field, count) end
	end
end

local function out(holds, field)
	for n = 1, writer(field) and 0 or holds[field] do redis.call('DEL', timeout(field, n)) end
	redis.call('HDEL', lock, field)
	redis.call('HDEL', side, writer(field) or field)
	holds[field] = nil
end

-- Looks at all who hold, takes out readers of ours whose deadline has passed, and
-- returns the last deadline in milliseconds from now: -2 if all have passed, nothing
-- if somebody has none. Where the clock stepped back, none of ours is further ahead
-- than that claim ever asked for.
local function last(holds)
	local most = -2
	for field, count in pairs(holds) do
		local w = writer(field)
		local has = w and redis.call('PTTL', lock) or left(field, count)
		local _, asked = record(w or field)
		if asked and has > asked then
			has = asked
			redis.call('PEXPIRE', w and lock or timeout(field, 1), has)
		end
		if asked and has == -2 then out(holds, field) end
		if has == -1 then return end
		most = math.max(most, has)
	end
	return most
end

-- Puts the lock's deadline where its holders' last is, or frees it if none is left. A
-- lock that somebody has put without a deadline stays so while anybody is in it.
-- Returns its milliseconds, or nothing if it is free now.
local function settle(holds, message)
	local ends, has = last(holds), redis.call('PTTL', lock)
	if next(holds) == nil or ends == -2 and has ~= -1 then
		tell(message)
		redis.call('DEL', lock)
		return
	end
	if ends and ends >= 0 and has ~= -1 then
		has = math.max(ends, 1)
		redis.call('PEXPIRE', lock, has)
	end
	return has
end
