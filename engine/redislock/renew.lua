-- Extends claims, held and waiting, and says what they are now.
--
--   KEYS[i]  a line; the same one may occur more than once
--   ARGV[i]  ID, 16 bytes, then the lifetime wanted in microseconds
--
-- Returns one piece of 33 bytes for each, as say() packs it. Where the key is
-- somebody else's by now the claim is gone, and the others are renewed.

local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]

-- include line.lua

local out = {}
for i, key in ipairs(KEYS) do
	local id, want = struct.unpack('>c16I8', ARGV[i])
	local m = redis.pcall('HGET', key, 'm')
	local l
	if type(m) ~= 'table' then
		l = open(key, m)
	elseif string.find(m.err, 'WRONGTYPE', 1, true) == nil then
		return m -- not this key's fault: nothing is known
	end
	if l then
		local p = find(l, now, id)
		if p and not p.evicted then extend(l, p, now + want) end
		settle(l, now, id)
		out[i] = reply(l, now, id)
		store(l, false)
	else
		out[i] = say(3, false, false, 0, 0, 0, 0, 0)
	end
end
return table.concat(out)
