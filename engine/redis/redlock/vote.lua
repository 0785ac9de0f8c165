-- Begins every script by which a master takes part in granting or extending a
-- claim: ARGV[1] is the run of the server that the caller has looked at, and
-- judged to have a vote ('': it asks for no such proof). A server that was
-- restarted since is another run. It refuses in the same step in which it would
-- have voted, so no client can count the vote of a server that forgot.

if ARGV[1] ~= '' and not string.find(redis.call('INFO', 'server'), 'run_id:' .. ARGV[1], 1, true) then
	return redis.error_reply('RESTARTED this server is not the one that was looked at')
end
