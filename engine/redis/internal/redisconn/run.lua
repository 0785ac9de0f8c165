-- Begins every script that grants or extends a claim, or lets another one hold,
-- where the delay after a restart is on. The last argument is the run of the server
-- that the caller has judged: a server that was restarted since is another run, and
-- may have forgotten who holds. It refuses in the step in which it would have
-- granted, so it does not matter when a client looked. The whole line is compared: an
-- empty run would be a part of every other.

if not string.find(redis.call('INFO', 'server'), 'run_id:' .. table.remove(ARGV) .. '\r', 1, true) then
	return redis.error_reply('RESTARTED this server is not the one that was looked at')
end
