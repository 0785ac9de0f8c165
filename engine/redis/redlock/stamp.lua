-- Phase 2: gives a claim its ticket on a master that it took in phase 1, if no
-- ticket as high was given here meanwhile. Ownership alone would not do: a phase
-- 1 that arrives once more, late, makes an owner of who has been one before.
--
--   KEYS[1]  the lock            ARGV[1]  the claim's ID
--   KEYS[2]  what is beside it   ARGV[2]  the ticket in decimal
--
-- Returns 1, or 0 if it may not have it.

local both = read(KEYS[1], KEYS[2])
local b, ticket = unpacked(KEYS[2], both[2]), tonumber(ARGV[2])
if not b then return foreign(2) end
if both[1] ~= ARGV[1] or b.id ~= ARGV[1] or b.evicted == ARGV[1] then return 0 end
if b.stamp == ticket then return 1 end -- this very call, arriving again
if b.ticket >= ticket then return 0 end
b.ticket, b.stamp = ticket, ticket
put(KEYS[2], b)
return 1
