-- The line of one name, as the scripts around this file see it. Its meaning is
-- that of the Go package engine/queue; a test compares the two step by step.
--
-- A name is one HASH. Field "m" is in one of four forms, told by its first byte:
--
--   E  nobody is in line: only the last ticket is remembered
--   S  one claim, written inside m: all that an uncontended lock ever needs
--   F  any number of claims: m has the totals, and each claim a field of its
--      own, named by its ID, with links to the one before and the one behind
--   Q  as F, but each claim takes the whole limit: a contended lock. So the front
--      holds and nobody else, which is not written in its field
--
-- So a hand-over touches m and the claim that goes, and reads the one that is
-- next, however many wait. Finding who has expired would mean reading everybody;
-- m.soonest, which no deadline is below, says when that is not needed. Whoever
-- reads everybody raises it to the true minimum. Living waiters renew long
-- before their deadlines, so that happens about once in their lifetime.
--
-- A clock that steps back moves every deadline away. So a claim also remembers
-- the longest lifetime it asked for, and its deadline is never further ahead
-- than that. m.seen, the clock when m was written, says whether it can be: it
-- was not further ahead then.
--
-- Times are microseconds by this server's TIME, and tickets are such times too:
-- below 2^53, so Lua's doubles hold them exactly. Tokens would not fit and are
-- never computed here.
--
-- Deadlines are ours alone; the key's own expiry only tidies up. It is put KEEP
-- behind the last deadline and moved only when less than half of KEEP is left,
-- which most calls find it is not. In between, the key is the memory of the
-- last ticket: tickets rise even if the clock steps back by an hour.

local HELD, DETACHED, EVICTED, TOLD = 1, 2, 4, 8
local NONE = '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'
local NEVER = 9007199254740991

-- What is stored may be anything: a slip of an operator, another program's data. So
-- nothing of it is believed that would have a script fail half way, or never end. Before
-- anything is written it ends by this, and the client says which key it was.
local function foreign() error('FOREIGN this is no line') end

-- Every step from claim to claim is counted: those of a line that is one are few times
-- as many as it can have claims.
local MOST, steps = 10000, 0
local function step()
	steps = steps + 1
	if steps > 10 * MOST then foreign() end
end

-- A time, or a duration: no sum of them leaves what a double holds.
local function possible(...)
	for _, n in ipairs({...}) do
		if n > NEVER - 4 * KEEP then foreign() end
	end
end

-- What m says in forms F and Q, and a claim's field. The scripts' short ways cut
-- these at fixed places, so their order is chosen for them.
-- In form Q m also has the front's ticket and flags, as its field has them.
local HEAD = '>c1I8I8I8I8c16I4I4I8c16c16c9' -- form, last, expiry, soonest, seen, tail, untold, limit, sum, first, wait, front
local FIELD = '>c16c16I8BI4I8I8' -- next, prev, ticket, flags, units, deadline, asked, then rest

-- rest is the claim's client (its channel: length, text) and its owner. They
-- are carried along unread.
local function claim(id, next, prev, ticket, flags, units, deadline, asked, rest)
	return {
		id = id, ticket = ticket, deadline = deadline, asked = asked, units = units,
		held = bit.band(flags, HELD) ~= 0, detached = bit.band(flags, DETACHED) ~= 0,
		evicted = bit.band(flags, EVICTED) ~= 0, told = bit.band(flags, TOLD) ~= 0,
		prev = prev, next = next, rest = rest,
	}
end

local function flagged(p)
	return (p.held and HELD or 0) + (p.detached and DETACHED or 0)
		+ (p.evicted and EVICTED or 0) + (p.told and TOLD or 0)
end

-- A claim from its field.
local function parse(l, id, raw)
	if #raw < 62 or #raw < 62 + string.byte(raw, 62) then foreign() end
	local next, prev, ticket, flags, units, deadline, asked = struct.unpack(FIELD, raw)
	possible(ticket, deadline, asked)
	local p = claim(id, next, prev, ticket, flags, units, deadline, asked, string.sub(raw, 62))
	if l.form == 'Q' then
		p.held, p.told = id == l.front, id == l.front and l.fronttold
	end
	if id == l.front then p.prev = NONE end
	return p
end

local function format(p)
	return struct.pack(FIELD, p.next, p.prev, p.ticket, flagged(p), p.units, p.deadline, p.asked) .. p.rest
end

-- The line from m (false: no such key), or nil if m is not ours.
local function open(key, m)
	local l = {
		key = key, form = 'E', last = 0, expiry = 0, limit = 0, sum = 0, whole = true,
		untold = 0, soonest = NEVER, seen = 0, first = NONE, wait = NONE, tail = NONE,
		claims = {}, gone = {}, notes = {}, changed = false,
	}
	if not m then
		return l
	end
	l.form, steps = string.sub(m, 1, 1), 0
	if l.form == 'E' and #m == 17 then
		l.last, l.expiry = struct.unpack('>I8I8', m, 2)
		possible(l.last, l.expiry)
	elseif l.form == 'S' and #m > 66 and #m >= 67 + string.byte(m, 67) then
		local deadline, asked, ticket, flags, units, id
		l.last, l.expiry, deadline, asked, ticket, flags, units, l.limit, id = struct.unpack('>I8I8I8I8I8BI4I4c16', m, 2)
		possible(l.last, l.expiry, deadline, asked, ticket)
		local p = claim(id, NONE, NONE, ticket, flags, units, deadline, asked, string.sub(m, 67))
		l.claims[id] = p
		l.first, l.tail, l.soonest, l.seen, l.whole = id, id, deadline, deadline - asked, units == l.limit
		if p.held then
			l.sum = p.units
			if not p.told and not p.evicted then l.untold = 1 end
		else
			l.wait = id
		end
	elseif (l.form == 'F' or l.form == 'Q') and #m == 106 then
		local form
		form, l.last, l.expiry, l.soonest, l.seen, l.tail, l.untold, l.limit, l.sum, l.first, l.wait, l.said = struct.unpack(HEAD, m)
		possible(l.last, l.expiry, l.seen)
		l.whole, l.front, l.fronttold = form == 'Q', l.first, l.untold == 0
	else
		return nil
	end
	return l
end

local function get(l, id)
	local p = l.claims[id]
	if p == nil then
		p = (l.form == 'F' or l.form == 'Q') and redis.call('HGET', l.key, id)
		p = p and parse(l, id, p)
		l.claims[id] = p
	end
	return p
end

-- A claim that the line itself names.
local function link(l, id)
	step()
	return get(l, id) or foreign()
end

local function change(l, p)
	p.dirty, l.changed = true, true
end

-- Holders that nobody has told that somebody waits are counted, so that each
-- arrival need not look at each holder. Every change of what counts goes
-- through here.
local function untold(l, p, by)
	if p.held and not p.told and not p.evicted then l.untold = l.untold + by end
end

local function remove(l, p)
	if p.prev == NONE then l.first = p.next else
		local q = link(l, p.prev)
		q.next = p.next
		change(l, q)
	end
	if p.next == NONE then l.tail = p.prev else
		local q = link(l, p.next)
		q.prev = p.prev
		change(l, q)
	end
	if l.wait == p.id then l.wait = p.next end
	if p.held then l.sum = l.sum - p.units end
	untold(l, p, -1)
	l.claims[p.id] = false
	l.gone[#l.gone + 1] = p.id
	l.changed = true
end

local function readall(l)
	if l.form ~= 'F' and l.form ~= 'Q' then return end
	if redis.call('HLEN', l.key) > MOST + 1 then foreign() end
	local all = redis.call('HGETALL', l.key)
	for i = 1, #all, 2 do
		local id = all[i]
		if #id == 16 and l.claims[id] == nil then l.claims[id] = parse(l, id, all[i + 1]) end
	end
end

-- Removes what has expired, before anything is decided, and has nobody stay for
-- longer than asked where the clock stepped back.
local function purge(l, now)
	local back = now < l.seen
	l.seen = now
	if now < l.soonest and not back then return end
	readall(l)
	local id, soonest = l.first, NEVER
	while id ~= NONE do
		local p = link(l, id)
		id = p.next
		if p.deadline <= now then
			remove(l, p)
		else
			if p.deadline > now + p.asked then
				p.deadline = now + p.asked
				change(l, p)
			end
			if p.deadline < soonest then soonest = p.deadline end
		end
	end
	l.soonest, l.changed = soonest, true
end

-- What a call says of a claim: 33 bytes, read by decode in Go.
-- state: 1 waiting, 2 held, 3 gone
local function say(state, contended, evicted, ticket, units, limit, ttl, look)
	return struct.pack('>BI8I4I4I8I8', state + (contended and 4 or 0) + (evicted and 8 or 0),
		ticket, units, limit, ttl, look)
end

local function contended(l, p)
	if p.held then return l.wait ~= NONE end
	return l.tail ~= p.id
end

-- A note is the claim's ID, the first 17 bytes of what say() packs, and the key.
local function note(l, p, state, behind)
	local channel = string.sub(p.rest, 2, 1 + string.byte(p.rest))
	l.notes[#l.notes + 1] = {channel, p.id .. struct.pack('>BI8I4I4',
		state + (behind and 4 or 0) + (p.evicted and 8 or 0), p.ticket, p.units, l.limit) .. l.key}
end

-- Removes what has expired and lets the rule decide who holds. Everybody who
-- became held is told, except subject, whose reply says it.
local function settle(l, now, subject)
	purge(l, now)
	local became = {}
	while l.wait ~= NONE do
		local p = link(l, l.wait)
		if l.sum + p.units > l.limit then break end
		p.held, p.told = true, false
		untold(l, p, 1)
		l.sum, l.wait = l.sum + p.units, p.next
		change(l, p)
		if p.id ~= subject then became[#became + 1] = p end
	end
	-- Only now is it known whether anybody still waits.
	for _, p in ipairs(became) do
		untold(l, p, -1)
		p.told = l.wait ~= NONE
		untold(l, p, 1)
		note(l, p, 2, p.told)
	end
end

-- Tells each holder once that it is contended.
local function tellholders(l)
	local id = l.first
	while l.untold > 0 and id ~= NONE do
		local p = link(l, id)
		if not p.held then break end
		if not p.told and not p.evicted then
			untold(l, p, -1)
			p.told = true
			change(l, p)
			note(l, p, 2, true)
		end
		id = p.next
	end
end

-- A claim that has not expired, or nil: past its deadline it is gone for its
-- owner even while its record stands.
local function find(l, now, id)
	local p = get(l, id)
	if p and p.deadline > now then return p end
	return nil
end

-- No call moves a deadline earlier.
local function extend(l, p, now, want)
	if now + want > p.deadline then
		p.deadline = now + want
		change(l, p)
	end
	if want > p.asked then
		p.asked = want
		change(l, p)
	end
end

-- How long until expiry alone lets the first waiter hold.
local function look(l, p, now)
	local ahead, id, sum = {}, l.first, l.sum + p.units
	while id ~= p.id do
		local q = link(l, id)
		ahead[#ahead + 1] = q
		id = q.next
	end
	table.sort(ahead, function(a, b) return a.deadline < b.deadline end)
	for _, q in ipairs(ahead) do
		sum = sum - q.units
		if sum <= l.limit then return q.deadline - now end
	end
	return 0
end

-- What the owner of a claim is told; it settles what the owner knows.
local function reply(l, now, id)
	local p = find(l, now, id)
	if not p then return say(3, false, false, 0, 0, 0, 0, 0) end
	local c = contended(l, p)
	if p.held and p.told ~= c then
		untold(l, p, -1)
		p.told = c
		untold(l, p, 1)
		change(l, p)
	end
	if p.evicted then return say(3, c, true, p.ticket, p.units, l.limit, 0, 0) end
	if p.held then return say(2, c, false, p.ticket, p.units, l.limit, p.deadline - now, 0) end
	return say(1, c, false, p.ticket, p.units, l.limit, p.deadline - now, l.wait == id and look(l, p, now) or 0)
end

-- Writes what changed, then tells whom it concerns. Without memory for more
-- Redis refuses the first write of a script and none after it: who joins then
-- is refused whole, but who holds must still be able to renew and to leave, so
-- there a write that needs no memory goes first.
local function store(l, joining)
	if l.changed then
		local args = {l.key, 'm'}
		local fields = l.form == 'F' or l.form == 'Q'
		if l.first == NONE then
			args[3] = struct.pack('>c1I8I8', 'E', l.last, l.expiry)
		else
			local latest = 0
			for _, p in pairs(l.claims) do
				if p and p.deadline > latest then latest = p.deadline end
			end
			if l.expiry < latest + KEEP / 2 then
				l.expiry = latest + KEEP
				l.rearm = true
			end
			if l.first == l.tail then
				local p = link(l, l.first)
				args[3] = struct.pack('>c1I8I8I8I8I8BI4I4c16', 'S', l.last, l.expiry, p.deadline, p.asked, p.ticket,
					flagged(p), p.units, l.limit, p.id) .. p.rest
				l.gone[#l.gone + 1] = p.id
			else
				local front = l.claims[l.first]
				if front then
					l.said = struct.pack('>I8B', front.ticket, flagged(front))
				elseif l.first ~= l.front then
					local stored = redis.call('HGET', l.key, l.first)
					if not stored or #stored < 62 then foreign() end
					l.said = string.sub(stored, 33, 41)
				end
				args[3] = struct.pack(HEAD, l.whole and 'Q' or 'F', l.last, l.expiry, l.soonest, l.seen, l.tail,
					l.untold, l.limit, l.sum, l.first, l.wait, l.said)
				for id, p in pairs(l.claims) do
					if p and (p.dirty or not fields) then
						args[#args + 1] = id
						args[#args + 1] = format(p)
					end
				end
			end
		end
		local frees = fields and #l.gone > 0
		if not joining and (l.rearm or not frees) then
			redis.call('PEXPIREAT', l.key, math.ceil(l.expiry / 1000))
		end
		-- Lua's stack bounds the arguments of one call.
		if frees then
			for i = 1, #l.gone, 1000 do
				redis.call('HDEL', l.key, unpack(l.gone, i, math.min(i + 999, #l.gone)))
			end
		end
		for i = 2, #args, 1000 do
			redis.call('HSET', l.key, unpack(args, i, math.min(i + 999, #args)))
		end
		if joining and l.rearm then redis.call('PEXPIREAT', l.key, math.ceil(l.expiry / 1000)) end
	end
	for _, n in ipairs(l.notes) do
		-- A client that cannot be told looks by itself in time, and what was
		-- decided here stands.
		redis.pcall('PUBLISH', n[1], n[2])
	end
end
