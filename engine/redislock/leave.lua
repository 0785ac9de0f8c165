-- Gives one claim up, held or waiting, and says in which state it was found.
--
--   KEYS[1]  the line
--   ARGV[1]  ID, 16 bytes
--
-- Returns what say() packs. A key that is not ours holds no claim.

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
if #m > 90 and string.byte(m) == 83 and string.sub(m, 22, 37) == id then
	local ticket, deadline, units, flags = struct.unpack('>I8I8I4B', m, 38)
	local done = redis.pcall('HSET', key, 'm', 'E' .. string.sub(m, 2, 17))
	if type(done) == 'table' then
		if not string.find(done.err, 'OOM', 1, true) then return done end
		redis.call('DEL', key)
	end
	if deadline <= now then return struct.pack('>BI8I4I4I8I8', 3, 0, 0, 0, 0, 0) end
	local limit = struct.unpack('>I4', m, 18)
	return struct.pack('>BI8I4I4I8I8', flags % 8 >= 4 and 11 or 2, ticket, units, limit, 0, 0)
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
