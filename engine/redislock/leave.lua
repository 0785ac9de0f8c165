-- Gives one claim up, held or waiting, and says in which state it was found.
--
--   KEYS[1]  the line
--   ARGV[1]  ID, 16 bytes
--
-- Returns what say() packs, or, where nobody else was in line, the claim as it
-- is stored: ticket, flags, units, limit. A key that is not ours holds no claim.

local key, id = KEYS[1], ARGV[1]
local m = redis.pcall('HGET', key, 'm')
if type(m) == 'table' then
	if not string.find(m.err, 'WRONGTYPE', 1, true) then return m end
	m = false
end
if not m then return struct.pack('>BI8I4I4I8I8', 3, 0, 0, 0, 0, 0) end
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]

-- The only claim there is goes: the uncontended lock. Where there is no memory
-- for the write, the key goes instead: it must always be possible to leave, and
-- the clock alone then lets tickets rise.
if string.byte(m) == 83 and #m > 58 and string.sub(m, 43, 58) == id then
	local done = redis.pcall('HSET', key, 'm', 'E' .. string.sub(m, 2, 17))
	if type(done) == 'table' then
		if not string.find(done.err, 'OOM', 1, true) then return done end
		redis.call('DEL', key)
	end
	if struct.unpack('>I8', m, 18) <= now then return struct.pack('>BI8I4I4I8I8', 3, 0, 0, 0, 0, 0) end
	return string.sub(m, 26, 42)
end

-- The only holder goes and hands over to the next, who takes the whole limit
-- too, while others wait behind: a contended lock. Nobody has expired, so this
-- is all there is to do; whatever is less simple goes the long way, which does
-- the same for this case and costs twice as much.
if string.byte(m) == 70 and #m == 97 then
	local last, expiry, limit, count, waiting, _, _, soonest, first, wait, tail =
		struct.unpack('>I8I8I4I4I4I4I8I8c16c16c16', m, 2)
	if first == id and waiting == count - 1 and waiting > 1 and now < soonest then
		local two = redis.call('HMGET', key, id, wait)
		local mine, theirs = two[1], two[2]
		local ticket, _, units, flags = struct.unpack('>I8I8I4B', mine)
		local theirticket, deadline, theirunits, theirflags, _, behind = struct.unpack('>I8I8I4Bc16c16', theirs)
		if theirunits == limit then
			local channel = string.sub(theirs, 55, 54 + string.byte(theirs, 54))
			redis.call('HDEL', key, id)
			-- Held (1) and told (8): all that wait behind are seen in the note.
			redis.call('HSET', key, 'm', struct.pack('>c1I8I8I4I4I4I4I8I8c16c16c16', 'F', last, expiry, limit,
				count - 1, waiting - 1, 0, limit, soonest, wait, behind, tail),
				wait, struct.pack('>I8I8I4Bc16', theirticket, deadline, theirunits, theirflags + 9,
				'\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0') .. string.sub(theirs, 38))
			redis.pcall('PUBLISH', channel, wait ..
				struct.pack('>BI8I4I4I8I8', 6, theirticket, theirunits, limit, 0, 0) .. key)
			return struct.pack('>BI8I4I4I8I8', flags % 8 >= 4 and 15 or 6, ticket, units, limit, 0, 0)
		end
	end
end

-- include line.lua

local r = say(3, false, false, 0, 0, 0, 0, 0)
local l = open(key, m)
if not l then return r end
local p = get(l, id)
if p then
	if p.deadline > now then
		-- As it was before this call: settling first could only turn a claim
		-- nobody was told of into a held one, for nothing.
		local state = p.evicted and 3 or p.held and 2 or 1
		r = say(state, contended(l, p), p.evicted, p.ticket, p.units, l.limit, 0, 0)
	end
	remove(l, p)
end
settle(l, now, id)
store(l, false)
return r
