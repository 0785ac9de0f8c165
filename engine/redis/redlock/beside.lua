-- What is beside a lock, as one string. Parts are separated by spaces:
--
--   ticket   the counter: the highest ticket stamped on this master
--   stamp    the ticket that its claim was given here, or 0
--   try      the latest try of its claim, a number that rises
--   asked    the longest lifetime that its claim asked for, in milliseconds
--   id       its claim: who took the lock here last
--   evicted  a claim that was evicted, or -
--   owner    of its claim
--
-- Numbers are below 2^53, so Lua has them exactly, and writes them by %.0f.

local function unpacked(s)
	if not s then return { ticket = 0, stamp = 0, try = 0, asked = 0, id = '', evicted = '-', owner = '' } end
	local b = {}
	b.ticket, b.stamp, b.try, b.asked, b.id, b.evicted, b.owner = string.match(s, '^(%d+) (%d+) (%d+) (%d+) (%S+) (%S+) (.*)$')
	b.ticket, b.stamp, b.try, b.asked = tonumber(b.ticket), tonumber(b.stamp), tonumber(b.try), tonumber(b.asked)
	return b
end

local function put(key, b)
	redis.call('SET', key, string.format('%.0f %.0f %.0f %.0f ', b.ticket, b.stamp, b.try, b.asked) .. b.id .. ' ' .. b.evicted .. ' ' .. b.owner,
		'PX', b.asked + KEEP)
end
