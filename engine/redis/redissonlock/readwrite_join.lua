-- Reads or writes if that is free. Trying again is the same call, as in
-- lock_join.lua, whose arguments these are; besides:
--
--   ARGV[9]  1: it reads

local h, want, reads = ARGV[5], tonumber(ARGV[6]), ARGV[9] == '1'
local field = reads and h or h .. ':write'
local ok, mode, holds = holding()
if not ok then return {0, '0', 0} end
holds = holds or {}
local nobody = next(holds) == nil -- a mode without holders is held until it expires

if left_before(h) then return {3, '0', 0} end
if evicted(h) then return {3, record(h) or '0', 8} end
if holds[field] then
	local has = reads and left(h, 1) or redis.call('PTTL', lock)
	if has ~= -2 then
		local ms, ticket = extended(h, has, want)
		if reads then redis.call('PEXPIRE', timeout(h, 1), ms) end
		has = redis.call('PTTL', lock)
		if not reads or has ~= -1 and has < ms then redis.call('PEXPIRE', lock, ms) end
		return {2, ticket, ms, wanted()}
	end
	out(holds, field) -- past its deadline, and kept by other readers: it is made anew
end

local old = holds[ARGV[8]] and ARGV[8] or ARGV[8] .. ':write'
local replaced = holds[old] ~= nil
if replaced then
	local ticket, why = following()
	if not ticket then return {0, why, 0} end -- refused, so nothing is given up for it
	if not reads then together(holds) end -- nor for an error
	out(holds, old)
end
if mode and next(holds) == nil and not nobody then
	redis.call('DEL', lock)
	if replaced and wanted() == 1 then -- a turn ends when somebody else waits
		tell(mode == 'write' and '1' or '0')
		replaced_is_void()
		return {1, '0', -2}
	end
	mode = nil
end

if mode and not (mode == 'read' and reads) then
	-- Who waits looks when the deadline passes, so that must be right. A lock whose
	-- readers were all ours, and died, is free.
	local has = redis.call('PTTL', lock)
	local ends = last(holds)
	if next(holds) ~= nil or nobody or has == -1 then
		if ends and ends >= 0 and ends < has then
			has = math.max(ends, 1)
			redis.call('PEXPIRE', lock, has)
		end
		replaced_is_void()
		return {1, '0', has}
	end
	redis.call('DEL', lock)
	mode = nil
end

if mode and redis.call('HLEN', lock) > 10000 then return {0, '2', 0} end
local ticket, why = rise()
if not ticket then return {0, why, 0} end
local has = -2
if mode then has = redis.call('PTTL', lock) else forget() end
redis.call('HSET', lock, 'mode', reads and 'read' or 'write', field, 1)
if reads then redis.call('SET', timeout(h, 1), 1, 'PX', want) end
if has ~= -1 and has < want then redis.call('PEXPIRE', lock, want) end
note(h, ticket, want, ARGV[7])
replaced_is_void()
return {2, ticket, want, wanted()}
