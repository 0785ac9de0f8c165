-- Extends claims, held and waiting, and says what they are now.
--
--   KEYS[i]  a line; the same one may occur more than once
--   ARGV[i]  ID, 16 bytes, then the lifetime wanted in microseconds
--   behind   w: something is written for each claim, though nothing changes
--
-- A client that does not believe one server sends a WAIT behind it. From Redis 7.2 on
-- that asks only for what the connection has written: of a call that wrote nothing it
-- says at once that every replica has it.
--
-- Returns one piece of 33 bytes for each, as say() packs it. Where the key is
-- somebody else's by now the claim is gone, and the others are renewed.

local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local writes = ARGV[#KEYS + 1] == 'w'

-- A claim alone in its line, held, not marked, not told that somebody waits (who
-- left since), and no clock that stepped back: as most are. Writing its deadline is all; only if that
-- finds no memory, or the key's expiry must move, does the whole line go to
-- work. Returns nothing if it is not so simple.
local function alone(key, m, id, want)
	local expiry, deadline, asked, ticket, flags, units, limit = struct.unpack('>I8I8I8I8BI4I4', m, 10)
	if deadline <= now or deadline > now + asked or flags >= 4 or asked > 140737488355328 then return nil end
	local later = now + want
	if writes and later <= deadline then return nil end
	if later > deadline then
		if expiry < later + KEEP / 2 then return nil end
		local done = redis.pcall('HSET', key, 'm', string.sub(m, 1, 17) .. struct.pack('>I8I8', later, math.max(asked, want)) .. string.sub(m, 34))
		if type(done) == 'table' then return nil end
		deadline = later
	end
	return struct.pack('>BI8I4I4I8I8', 2, ticket, units, limit, deadline - now, 0)
end

-- include line.lua

-- What became of one claim of a line.
local function one(key, m, id, want)
	local l = open(key, m)
	if not l then foreign() end
	local p = find(l, now, id)
	if p and not p.evicted then extend(l, p, now, want) end
	settle(l, now, id)
	local r = reply(l, now, id)
	if writes and not l.changed and l.first ~= NONE then redis.call('PEXPIREAT', key, math.ceil(l.expiry / 1000)) end
	store(l, false)
	return r
end

local out = {}
for i, key in ipairs(KEYS) do
	local id, want = struct.unpack('>c16I8', ARGV[i])
	local m = redis.pcall('HGET', key, 'm')
	if type(m) == 'table' then
		if string.find(m.err, 'WRONGTYPE', 1, true) == nil then return m end -- not this key's fault: nothing is known
		out[i] = say(3, false, false, 0, 0, 0, 0, 0)
	else
		if m and string.byte(m) == 83 and #m > 66 and string.sub(m, 51, 66) == id then
			out[i] = alone(key, m, id, want)
		end
		if not out[i] then
			local done, r = pcall(one, key, m, id, want)
			if not done then
				if type(r) ~= 'string' or not string.find(r, 'FOREIGN', 1, true) then error(r, 0) end
				r = say(3, false, false, 0, 0, 0, 0, 0)
			end
			out[i] = r
		end
	end
end
return table.concat(out)
