-- Many uncontended locks and unlocks of one process in one call: what join.lua
-- and leave.lua do first, for each in turn. A script costs more to begin than to
-- run, and so does reading the clock.
--
--   KEYS[i]       a line
--   ARGV[2i - 1]  a claim to join, or the ID of one to leave: see those files
--   ARGV[2i]      the lifetime of a claim to join
--
-- Returns for each what those scripts return; nothing where it is not so simple,
-- or where it failed. Then no claim is gone: the caller asks again there, by ID. No
-- error of one may end the script, or it would hide what was done for the others.

local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local before, behind = struct.pack('>c1I8', 'S', now), {} -- of what join stores

-- Leaves the only claim there is.
local function leave(key, m, id)
	if not m or string.byte(m) ~= 83 or #m <= 66 or string.sub(m, 51, 66) ~= id or struct.unpack('>I8', m, 18) <= now then
		return false
	end
	local done = redis.pcall('HSET', key, 'm', 'E' .. string.sub(m, 2, 17))
	return type(done) ~= 'table' and string.sub(m, 34, 50)
end

-- Joins where nobody is in line.
local function join(key, m, claim, ttl)
	local deadline, last, expiry = now + ttl, 0, 0
	if m then
		if string.byte(m) ~= 69 or #m ~= 17 then return false end
		last, expiry = struct.unpack('>I8I8', m, 2)
		if last >= now then return false end
	elseif redis.pcall('EXISTS', key) ~= 0 then
		return false
	end
	local tail = behind[ttl] -- the same for nearly all of them
	if not tail then
		tail = struct.pack('>I8I8I8', deadline, ttl, now)
		behind[ttl] = tail
	end
	if expiry >= deadline + KEEP / 2 then
		local done = redis.pcall('HSET', key, 'm', before .. string.sub(m, 10, 17) .. tail .. claim)
		return type(done) ~= 'table' and now
	end
	expiry = deadline + KEEP
	local done = redis.pcall('HSET', key, 'm', before .. struct.pack('>I8', expiry) .. tail .. claim)
	if type(done) == 'table' then return false end
	done = redis.pcall('PEXPIREAT', key, math.ceil(expiry / 1000))
	return type(done) ~= 'table' and now
end

local out = {}
for i, key in ipairs(KEYS) do
	local m, claim = redis.pcall('HGET', key, 'm'), ARGV[2 * i - 1]
	if type(m) == 'table' then
		out[i] = false -- not a line, perhaps
	elseif #claim == 16 then
		out[i] = leave(key, m, claim)
	else
		out[i] = join(key, m, claim, ARGV[2 * i])
	end
end
return out
