-- What all scripts of an exclusive lock (RLock, RFencedLock) know. Before it stand
-- KEEP, in milliseconds, and KIND.
--
--   KEYS[1]  the lock as Redisson keeps it: a hash with one field, who holds, as
--            <uuid>:<thread>, and how many times. Its expiry is the deadline
--   KEYS[2]  beside it, ours alone: a hash. Of each holder of ours, by its field,
--            "ticket asked owner" (asked: the longest lifetime in milliseconds);
--            last: the last ticket; evicted: the holders that were evicted last
--   KEYS[3]  of a fenced lock: Redisson's counter
--
-- Answers are state, ticket and number: held (2) and the milliseconds granted;
-- waiting (1) and the milliseconds until its holder's deadline (-1: none); gone
-- (3), and 8 if it was evicted; or 0: what is stored is no such lock.

local lock, side = KEYS[1], KEYS[2]

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

-- What we know of a holder of ours; nothing if it is not ours, or we lost it.
local function record(h)
	local r = redis.call('HGET', side, h)
	if not r then return end
	local ticket, asked, owner = r:match('^(%d+) (%d+) (.*)$')
	return ticket, tonumber(asked), owner
end

local function note(h, ticket, asked, owner)
	redis.call('HSET', side, h, ticket .. ' ' .. string.format('%.0f', asked) .. ' ' .. owner)
	redis.call('PEXPIRE', side, asked + KEEP)
end

-- The evicted are remembered so that they can be told, the last 64 of them.
local function evicted(h)
	return (redis.call('HGET', side, 'evicted') or ''):find(h, 1, true) ~= nil
end

local function evict(h)
	local marks = {h}
	for m in (redis.call('HGET', side, 'evicted') or ''):gmatch('%S+') do
		if #marks < 64 then marks[#marks + 1] = m end
	end
	redis.call('HSET', side, 'evicted', table.concat(marks, ' '))
end

-- The next ticket: it rises over whatever we know of, and where that was lost as
-- far as the clock does. Of a fenced lock it is Redisson's counter, which so rises
-- over its loss, and Redisson counts on from there. Nothing if the clock is absurd.
local function rise()
	local t = redis.call('TIME')
	local ticket = math.max((tonumber(redis.call('HGET', side, 'last')) or 0) + 1, t[1] * 1000000 + t[2])
	local counted = 0
	if KIND == 'fenced' then
		counted = tonumber(redis.call('GET', KEYS[3]) or '0') or 0
		ticket = math.max(ticket, counted + 1)
	end
	if ticket > 9007199254740991 then return end
	if KIND == 'fenced' then redis.call('INCRBY', KEYS[3], string.format('%.0f', ticket - counted)) end
	local text = string.format('%.0f', ticket)
	redis.call('HSET', side, 'last', text)
	return text
end

-- Tells who waits that the lock may be free. Before 3.22.0 Redisson listens by
-- SUBSCRIBE everywhere, since then on a Cluster by SSUBSCRIBE, which servers know
-- from 7.0 on: so both, and an older server's refusal means that nobody listens
-- so. It comes before what it tells of: a user who may not publish is refused
-- before anything was changed, and nobody can look before the script has ended.
local function tell(channel, message, cluster)
	redis.call('PUBLISH', channel, message)
	if cluster == '1' then redis.pcall('SPUBLISH', channel, message) end
end
