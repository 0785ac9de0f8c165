-- Ends the claim with a given ticket: one that waits at once, one that holds by
-- a mark, or at once too if now is asked for. Its client is told.
--
--   KEYS[1]  the line
--   ARGV[1]  the ticket, in decimal
--   ARGV[2]  1: at once
--
-- Returns 1, or 0 if there is no such claim, or 2: the key is not ours.

local key, ticket = KEYS[1], tonumber(ARGV[1])
local m = redis.call('HGET', key, 'm')
if not m then return '0' end
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]

-- include line.lua

local l = open(key, m)
if not l then return '2' end
settle(l, now, NONE)
readall(l)
local p
for _, q in pairs(l.claims) do
	if q and q.ticket == ticket then p = q end
end
if p then
	untold(l, p, -1)
	p.evicted = true
	change(l, p)
	note(l, p, 3, contended(l, p))
	if not p.held or ARGV[2] == '1' then
		remove(l, p)
		settle(l, now, NONE)
	end
end
store(l, false)
return p and '1' or '0'
