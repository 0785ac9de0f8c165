-- Takes a place at the end of a line, or finds the one this ID already has.
--
--   KEYS[1]  the line
--   ARGV[1]  the claim as form S stores it: flags, units, limit, ID, 16 bytes,
--            then its client's channel (length, text) and its owner
--   ARGV[2]  its lifetime in microseconds
--   ARGV[3]  n: held at once or not at all; or the ID of a claim to leave in
--            the same step; or absent
--
-- Returns the ticket alone if nobody was in line, minus the ticket if others wait
-- before it; else what say() packs; or a refusal that left nothing behind: L and
-- the line's limit, C and how many are in line, T: tickets have run out, X: the
-- key is not ours.

local key = KEYS[1]
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local m = redis.call('HGET', key, 'm')

-- Nobody is in line: the uncontended lock, and the reason for form S. Every
-- call and every value packed here counts: see BenchmarkUncontended.
if not m or string.byte(m) == 69 and #m == 17 then
	local last, expiry = 0, 0
	if m then
		last, expiry = struct.unpack('>I8I8', m, 2)
	elseif redis.call('EXISTS', key) == 1 then
		return 'X' -- somebody's hash without our field
	end
	local ticket, deadline = now, now + ARGV[2]
	if last >= now then
		ticket = last + 1 -- the clock stepped back, or stands still
		if ticket > 9007199254740991 then return 'T' end
	end
	if expiry > 9007199254740991 then return 'X' end
	local rearm = expiry < deadline + KEEP / 2
	if rearm then expiry = deadline + KEEP end
	redis.call('HSET', key, 'm',
		struct.pack('>c1I8I8I8I8I8', 'S', ticket, expiry, deadline, ARGV[2], ticket) .. ARGV[1])
	if rearm then redis.call('PEXPIREAT', key, math.ceil(expiry / 1000)) end
	return ticket
end

-- Others wait already, or will have to: a contended lock. Nobody has expired, nor
-- has the clock stepped back, so this claim goes behind the last one, and a holder who has not heard that
-- somebody waits is told. Whatever is less simple goes the long way, which does
-- the same for this case and costs several times as much.
local ttl = tonumber(ARGV[2])
if string.byte(m) == 81 and #m == 106 and not ARGV[3] then
	local last, expiry, soonest, seen, tail, untold, limited = struct.unpack('>I8I8I8I8c16I4c4', m, 2)
	local flags, units, limit, id = struct.unpack('>Bc4c4c16', ARGV[1])
	local deadline = now + ttl
	if units == limited and limit == limited and now < soonest and seen <= now and last < now and expiry >= deadline + KEEP / 2
		and redis.call('HLEN', key) <= 10000 then
		local two = redis.call('HMGET', key, id, tail)
		if not two[1] and two[2] and #two[2] >= 62 and #two[2] >= 62 + string.byte(two[2], 62) then
			local ahead, wait, none = two[2], string.sub(m, 82, 97), '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'
			local first = wait == none -- to wait: then the tail is the holder
			if deadline < soonest then soonest = deadline end
			redis.call('HSET', key, 'm', struct.pack('>c1I8I8I8I8c16I4', 'Q', now, expiry, soonest, now, id, 0)
				.. string.sub(m, 54, 81) .. (first and id or wait) .. string.sub(m, 98),
				tail, id .. string.sub(ahead, 17),
				id, none .. tail .. struct.pack('>I8Bc4I8I8', now, flags - 1, units, deadline, ttl) .. string.sub(ARGV[1], 26))
			if not first then return -now end
			if untold > 0 then
				redis.pcall('PUBLISH', string.sub(ahead, 63, 62 + string.byte(ahead, 62)), tail .. '\6'
					.. string.sub(ahead, 33, 40) .. string.sub(ahead, 42, 45) .. limited .. key)
			end
			local look = struct.unpack('>I8', ahead, 46) - now
			return struct.pack('>BI8c4c4I8I8', 1, now, units, limit, ttl, look)
		end
	end
end

-- include line.lua

local l = open(key, m)
if not l then return 'X' end
local flags, units, limit, id = struct.unpack('>BI4I4c16', ARGV[1])

-- A retry of a Join whose answer was lost. What it replaced is gone since the
-- first arrival.
local p = find(l, now, id)
if p then
	if not p.evicted then extend(l, p, now, ttl) end
	settle(l, now, id)
	local r = reply(l, now, id)
	store(l, true)
	return r
end

-- Every refusal comes before anything is stored: it leaves nothing behind and
-- must not cost the caller the claim it replaces.
purge(l, now)
local nowait = ARGV[3] == 'n'
local replaced = ARGV[3] and not nowait and get(l, ARGV[3])
local others = (l.first == NONE and 0 or 1) - (replaced and 1 or 0)
if l.form == 'F' or l.form == 'Q' then others = redis.call('HLEN', key) - #l.gone - (replaced and 2 or 1) end
if others > 0 and l.limit ~= limit then return struct.pack('>c1I4', 'L', l.limit) end
if others >= 10000 then return struct.pack('>c1I4', 'C', others) end
local ticket = math.max(l.last + 1, now)
if ticket > NEVER then return 'T' end

if replaced then remove(l, replaced) end
if nowait then
	settle(l, now, id)
	if l.wait ~= NONE or l.sum + units > limit then
		tellholders(l)
		store(l, true)
		return say(3, false, false, 0, units, limit, 0, 0)
	end
end
p = {
	id = id, ticket = ticket, deadline = now + ttl, asked = ttl, units = units, detached = bit.band(flags, DETACHED) ~= 0,
	prev = l.tail, next = NONE, rest = string.sub(ARGV[1], 26), dirty = true,
}
if l.tail == NONE then l.first = id else
	local q = link(l, l.tail)
	q.next = id
	change(l, q)
end
l.claims[id] = p
l.tail, l.last, l.limit, l.changed = id, ticket, limit, true
if l.whole and units ~= limit then
	l.whole = false
	if l.first ~= id then change(l, link(l, l.first)) end -- form Q did not say that it holds
end
if l.wait == NONE then l.wait = id end
if p.deadline < l.soonest then l.soonest = p.deadline end
settle(l, now, id)
if not p.held then tellholders(l) end
local r = reply(l, now, id)
store(l, true)
return r
