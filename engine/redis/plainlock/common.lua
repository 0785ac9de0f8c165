-- What all scripts of this package know.
--
--   KEYS[1]  the lock: a string, whose value is its holder's secret
--   KEYS[2]  beside it, ours alone: a hash with the last ticket, its claim's ID, owner
--            and the longest lifetime it asked for (in milliseconds), the ID of a claim
--            that was evicted, and the IDs of claims that were left

local lock, side = KEYS[1], KEYS[2]
local value = redis.call('GET', lock)
local record = redis.pcall('HMGET', side, 'ticket', 'id', 'owner', 'asked', 'evicted', 'left')
local junk = record.err
if junk and not string.find(junk, 'WRONGTYPE', 1, true) then return record end
if junk then record = {} end
local ticket, id, owner, asked, evicted, left = unpack(record)

-- Somebody else's data, or a ticket behind which there is none, is as good as nothing
-- for who holds, and refused where it would be written to.
if (ticket or id or asked) and not (ticket and id and asked and string.find(ticket, '^[1-9]%d*$') and string.find(asked, '^[1-9]%d*$')
	and #asked <= 12 and #ticket <= 16 and tonumber(ticket) < 9007199254740991) then
	junk, ticket, id, owner, asked, evicted = 'no record', nil, nil, nil, nil, nil
end
asked = tonumber(asked)

-- The milliseconds the lock has left: -1, no expiry; of an absurd one thirty years.
local function remaining() return math.min(redis.call('PTTL', lock), 1000000000000) end

-- Marks a claim that was left while a try of it may arrive yet, for which it is void
-- then; of a name the last 128.
local function mark(h)
	if junk then return end
	redis.pcall('HSET', side, 'left', string.sub(h .. ' ' .. (left or ''), 1, 128 * (#h + 1)))
	if redis.call('PTTL', side) < KEEP / 1000 then redis.call('PEXPIRE', side, KEEP / 1000) end
end
