-- Reads one line for inspection, and the time to read it by.
--
--   KEYS[1]  the line

if redis.call('HLEN', KEYS[1]) > 10001 then return redis.error_reply('FOREIGN that many claims no line has') end
local t = redis.call('TIME')
return {t[1] * 1000000 + t[2], redis.call('HGETALL', KEYS[1])}
