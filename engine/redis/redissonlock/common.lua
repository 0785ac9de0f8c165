-- What all scripts of this package know. Before it stand KEEP, in milliseconds, and
-- KIND.
--
--   KEYS[1]  the lock as Redisson keeps it, a hash
--   KEYS[2]  beside it, ours alone: a hash. Of each holder of ours
--            "ticket asked owner" (asked: the longest lifetime in milliseconds);
--            last: the last ticket; evicted: the holders that were evicted: see evict;
--            left: holders that were left while a try of theirs might arrive yet
--            It may hold something else (answer: BESIDE)
--   KEYS[3]  for who joins a fenced lock: Redisson's counter
--   ARGV[1]  what the keys begin with that carry the deadlines of readers
--   ARGV[2]  the channel on which releases are told
--   ARGV[3]  1: on a Cluster
--   ARGV[4]  how many of those who listen there are the asker itself: 0 or 1
--
-- Answers are state, ticket and number: held (2) and the milliseconds granted, and
-- as a fourth whether somebody else waits; waiting (1) and the milliseconds until the lock's deadline (-1: it has none);
-- gone (3), and 8 if it was evicted; or 0, which refuses: see answer in Go.

local lock, side = KEYS[1], KEYS[2]

-- Before anything is changed. Read as well by rise. What is no number is none of ours.
local highest = redis.pcall('HGET', side, 'last')
if type(highest) == 'table' then return redis.error_reply('BESIDE ' .. highest.err) end
highest = highest and highest:find('^%d+$') and #highest <= 16 and tonumber(highest) or 0

-- What we know of a holder of ours; nothing if it is not ours, or we lost it.
local function record(h)
	local r = redis.call('HGET', side, h)
	if not r then return end
	local ticket, asked, owner = r:match('^(%d+) (%d+) (.*)$')
	if not ticket or #ticket > 16 or #asked > 12 then return end
	return ticket, tonumber(asked), owner
end

local function note(h, ticket, asked, owner)
	redis.call('HSET', side, h, ticket .. ' ' .. string.format('%.0f', asked) .. ' ' .. owner)
	redis.call('PEXPIRE', side, asked + KEEP)
end

-- The evicted are remembered so that they can be told.
local function evicted(h)
	return (redis.call('HGET', side, 'evicted') or ''):find(h, 1, true) ~= nil
end

-- A holder keeps its mark, which alone ends it, and thousands may read at once.
-- Of those that are gone the last 64 keep theirs. others are the fields of who may hold
-- besides h.
local function evict(h, others)
	local marks = {h}
	for m in (redis.call('HGET', side, 'evicted') or ''):gmatch('%S+') do
		if m ~= h and (#marks < 64 or others[m]) then marks[#marks + 1] = m end
	end
	redis.call('HSET', side, 'evicted', table.concat(marks, ' '))
end

-- Marks a claim that was left while a try of it may arrive yet, for which it is void
-- then (see Tries in Go); of a name the last 128.
local function void(h)
	local marks = redis.call('HGET', side, 'left') or ''
	redis.pcall('HSET', side, 'left', string.sub(h .. ' ' .. marks, 1, 128 * (#h + 1)))
	if redis.call('PTTL', side) < KEEP then redis.call('PEXPIRE', side, KEEP) end
end

local function replaced_is_void() -- of who joins: see lock_join.lua
	if ARGV[10] == '1' then void(ARGV[8]) end
end

local function left_before(h)
	return (redis.call('HGET', side, 'left') or ''):find(h, 1, true) ~= nil
end

-- The next ticket: it rises over whatever we know of, and where that was lost as
-- far as the clock does. Of a fenced lock it is Redisson's counter, which so rises
-- over its loss, and Redisson counts on from there. Else nothing, and why: 1, the clock
-- is absurd; 3, the counter holds no number, or none that leaves room for a ticket;
-- 4, what is beside the lock leaves none, or is more than there can be. The third value
-- is what the counter is behind.
local function following()
	local t = redis.call('TIME')
	local now = t[1] * 1000000 + t[2]
	if now > 9007199254740991 then return nil, '1' end
	local ticket = math.max(highest + 1, now)
	if ticket > 9007199254740991 or redis.call('HLEN', side) > 20000 then return nil, '4' end
	local counted = 0
	if KIND == 'fenced' then
		local stands = redis.pcall('GET', KEYS[3]) or '0'
		if type(stands) == 'table' or stands ~= '0' and not stands:find('^%-?[1-9]%d*$') or #stands > 16 then return nil, '3' end
		counted = tonumber(stands)
		ticket = math.max(ticket, counted + 1)
		if ticket > 9007199254740991 then return nil, '3' end
	end
	return string.format('%.0f', ticket), nil, string.format('%.0f', ticket - counted)
end

-- Takes that ticket.
local function rise()
	local ticket, why, behind = following()
	if not ticket then return nil, why end
	if KIND == 'fenced' then redis.call('INCRBY', KEYS[3], behind) end
	redis.call('HSET', side, 'last', ticket)
	return ticket
end

-- Tells who waits that the lock may be free. Before 3.22.0 Redisson listens by
-- SUBSCRIBE everywhere, since then on a Cluster by SSUBSCRIBE, which servers know
-- from 7.0 on: so both, and an older server's refusal means that nobody listens
-- so. It comes before what it tells of: a user who may not publish is refused
-- before anything was changed, and nobody can look before the script has ended.
--
-- A Redisson client that hears 0 wakes one thread, or the next one that is about to
-- sleep. Of 1, which is told after a writer, it wakes all threads that sleep, and
-- forgets it: a thread that has its answer "taken" and does not sleep yet would sleep
-- until that writer's lease had ended. So 0 follows 1. Who is woken for nothing asks
-- once.
local function tell(message)
	redis.call('PUBLISH', ARGV[2], message)
	if ARGV[3] == '1' then redis.pcall('SPUBLISH', ARGV[2], message) end
	if message == '1' then tell('0') end
end

-- Forgets what is known of every holder: the lock is free.
local function forget()
	for _, field in ipairs(redis.call('HKEYS', side)) do
		if field ~= 'last' and field ~= 'evicted' and field ~= 'left' then redis.call('HDEL', side, field) end
	end
end

-- The lifetime of a holder of ours that asks for more: never less than it has,
-- except where a clock that stepped back put its deadline further away than it
-- ever asked for. has is what its key has left, in milliseconds.
local function extended(h, has, want)
	local ticket, asked, owner = record(h)
	local left = math.max(has, want)
	if not ticket then return left, '0' end -- what was beside the lock is lost
	asked = math.max(asked, want)
	note(h, ticket, asked, owner)
	return math.min(left, asked), ticket
end

-- 1 if anybody else listens for releases. Redisson listens only while it waits; we
-- go on for a second or two. On a Cluster only those can be counted who listen by
-- SSUBSCRIBE: that is on this server. A user who may not ask hears that nobody does.
local function wanted()
	local n = redis.pcall('PUBSUB', ARGV[3] == '1' and 'SHARDNUMSUB' or 'NUMSUB', ARGV[2])
	return not n.err and n[2] > tonumber(ARGV[4]) and 1 or 0
end
