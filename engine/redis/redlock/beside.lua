-- What is beside a lock, as one string:
--
--   ticket   the counter: the highest ticket stamped on this master
--   stamp    the ticket that its claim was given here, or 0
--   try      the latest try of its claim, a number that rises; the highest that
--            there is once the claim was renewed, which no try gives up any more
--   asked    the longest lifetime that its claim asked for, in milliseconds
--   id       its claim: who took the lock here last
--   evicted  a claim that was evicted, or NONE
--   owner    of its claim
--
-- Packed, because writing numbers as text, and finding them in it again, took
-- more of the server's time than the rest of a script. Numbers are below 2^53, so
-- Lua has them exactly; no stamp is above the counter, nothing asked above LONGEST.

local FORMAT, MARK, LENGTH = '>c2I8I8I8I8c32c32', 'L1', 98
local NONE = '--------------------------------'

-- unpacked reads what GET said (false: no such key, or no string). It is nil if the
-- key has somebody else's data, or a counter above which no ticket can be given, or
-- what no script here writes.
local function unpacked(key, s)
	local b = { ticket = 0, stamp = 0, try = 0, asked = 0, id = NONE, evicted = NONE, owner = '' }
	if not s then
		if redis.pcall('GET', key) then return nil end -- the error that it is no string
		return b
	end
	if #s < LENGTH or string.sub(s, 1, 2) ~= MARK then return nil end
	local _
	_, b.ticket, b.stamp, b.try, b.asked, b.id, b.evicted = struct.unpack(FORMAT, s)
	if b.ticket >= 9007199254740991 or b.stamp > b.ticket or b.try > 9007199254740991 or b.asked > LONGEST then return nil end
	b.owner = string.sub(s, LENGTH + 1)
	return b
end

local function put(key, b)
	redis.call('SET', key, struct.pack(FORMAT, MARK, b.ticket, b.stamp, b.try, b.asked, b.id, b.evicted) .. b.owner,
		'PX', b.asked + KEEP)
end

-- foreign is the answer where KEYS[n] has somebody else's data, which stays.
local function foreign(n) return redis.error_reply('FOREIGN ' .. n) end
