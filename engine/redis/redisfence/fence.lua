-- KEYS[1]  the mark
-- KEYS[2]  the key that is written; named for Cluster and for key permissions
-- ARGV     the token, what it raises the mark to (0: nothing), then each command as
--          the number of its words and the words
-- Answer   {''} and what the commands answered, or {mark} that refused the token

-- Tokens are decimal without leading zeros. As numbers they would be doubles, in which
-- 1805961216000000001 < 1805961216000000037 is false.
local function below(a, b)
	return #a < #b or #a == #b and a < b
end

local mark = redis.pcall('GET', KEYS[1]) or '0'
if type(mark) == 'table' and not string.find(mark.err, 'WRONGTYPE', 1, true) then return mark end
if type(mark) == 'table' or mark ~= '0' and not string.find(mark, '^[1-9]%d*$') or #mark > 19 then
	return redis.error_reply('ERR ' .. KEYS[1] .. ' does not hold a token: nothing was written; delete the key if no other program uses it')
end
if below(ARGV[1], mark) then
	return {mark}
end
if below(mark, ARGV[2]) then
	redis.call('SET', KEYS[1], ARGV[2])
end
local answers, i = {''}, 3
while i <= #ARGV do
	local n = tonumber(ARGV[i])
	answers[#answers + 1] = redis.call(unpack(ARGV, i + 1, i + n))
	i = i + n + 1
end
return answers
