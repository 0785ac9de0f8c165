-- Takes a place at the end of a line, or finds the one this ID already has.
--
--   KEYS[1]  the line
--   ARGV[1]  ID, 16 bytes
--   ARGV[2]  units, limit, TTL in microseconds, flags (1: not waiting, 2: detached)
--   ARGV[3]  the client's channel (length, then text), then the owner
--   ARGV[4]  the ID of a claim to leave in the same step, or nothing
--
-- Returns what say() packs, or a refusal that left nothing behind: L and the
-- line's limit, C and how many are in line, T: tickets have run out, X: the
-- key is not ours.

local key, id = KEYS[1], ARGV[1]
local units, limit, ttl, flags = struct.unpack('>I4I4I8B', ARGV[2])
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local m = redis.call('HGET', key, 'm')

-- Nobody is in line: the uncontended lock, and the reason for form S.
if not m or (#m == 17 and string.byte(m) == 69) then
	local last, expiry = 0, 0
	if m then
		last, expiry = struct.unpack('>I8I8', m, 2)
	elseif redis.call('EXISTS', key) == 1 then
		return 'X' -- somebody's hash without our field
	end
	local ticket, deadline = now, now + ttl
	if last >= now then
		ticket = last + 1 -- the clock stepped back, or stands still
		if ticket > 9007199254740991 then return 'T' end
	end
	local rearm = expiry < deadline + KEEP / 2
	if rearm then expiry = deadline + KEEP end
	redis.call('HSET', key, 'm', struct.pack('>c1I8I8I4c16I8I8I4Bc32', 'S', ticket, expiry, limit, id,
		ticket, deadline, units, flags >= 2 and 3 or 1,
		'\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0') .. ARGV[3])
	if rearm then redis.call('PEXPIREAT', key, math.ceil(expiry / 1000)) end
	return struct.pack('>BI8I4I4I8I8', 2, ticket, units, limit, ttl, 0)
end

-- include line.lua

local l = open(key, m)
if not l then return 'X' end

-- A retry of a Join whose answer was lost. What it replaced is gone since the
-- first arrival.
local p = find(l, now, id)
if p then
	if not p.evicted then extend(l, p, now + ttl) end
	settle(l, now, id)
	local r = reply(l, now, id)
	store(l, true)
	return r
end

-- Every refusal comes before anything is stored: it leaves nothing behind and
-- must not cost the caller the claim it replaces.
purge(l, now)
local replaced = ARGV[4] and get(l, ARGV[4])
local others = l.count - (replaced and 1 or 0)
if others > 0 and l.limit ~= limit then return struct.pack('>c1I4', 'L', l.limit) end
if others >= 10000 then return struct.pack('>c1I4', 'C', others) end
local ticket = math.max(l.last + 1, now)
if ticket > NEVER then return 'T' end

if replaced then remove(l, replaced) end
if flags % 2 == 1 then
	settle(l, now, id)
	if l.waiting > 0 or l.sum + units > limit then
		tellholders(l)
		store(l, true)
		return say(3, false, false, 0, units, limit, 0, 0)
	end
end
p = {
	id = id, ticket = ticket, deadline = now + ttl, units = units, detached = flags >= 2,
	prev = l.tail, next = NONE, rest = ARGV[3], dirty = true,
}
if l.tail == NONE then l.first = id else
	local q = get(l, l.tail)
	q.next = id
	change(l, q)
end
l.claims[id] = p
l.tail, l.last, l.limit, l.count, l.waiting, l.changed = id, ticket, limit, l.count + 1, l.waiting + 1, true
if l.wait == NONE then l.wait = id end
if p.deadline < l.soonest then l.soonest = p.deadline end
settle(l, now, id)
if not p.held then tellholders(l) end
local r = reply(l, now, id)
store(l, true)
return r
