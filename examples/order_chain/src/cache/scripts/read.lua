-- KEYS: product. ARGV: run.
if redis.call('HGET', KEYS[1], 'run') ~= ARGV[1] then
  return {}
end
local time = redis.call('TIME')
local fields = redis.call('HGETALL', KEYS[1])
table.insert(fields, 'now')
table.insert(fields, string.format('%d', time[1] * 1000 + math.floor(time[2] / 1000)))
return fields
