-- Many calls of join.lua and leave.lua in one, each with its own keys and arguments, as if
-- it had been made alone. A script costs a server more to receive, to begin and to answer
-- than to run.
--
--   KEYS  of each call three
--   ARGV  of each call: which script it is of; the run of the server that it is for (see
--         run.lua), or nothing; how many arguments it has, and these
--
-- Returns what each returns; nothing where it failed, or is for another run. That is asked
-- for again, alone, so that its caller hears why: a script here may be repeated. No error
-- may end this one, or it would hide what the others did.

local info
local function runs(run)
	info = info or redis.call('INFO', 'server')
	return string.find(info, 'run_id:' .. run .. '\r', 1, true)
end

local out, at = {}, 1
for i = 1, #KEYS / 3 do
	local f, run, n = scripts[ARGV[at]], ARGV[at + 1], tonumber(ARGV[at + 2])
	out[i] = false
	if run == '' or runs(run) then
		local ok, said = pcall(f, {unpack(KEYS, 3 * i - 2, 3 * i)}, {unpack(ARGV, at + 3, at + 2 + n)})
		if ok and not said.err then out[i] = said end
	end
	at = at + 3 + n
end
return out
