-- KEYS: product. ARGV: run, generation, available, sold, then order, reservation and quantity of each that is reserved.
local there = redis.call('HMGET', KEYS[1], 'run', 'generation')
if there[1] == ARGV[1] and tonumber(there[2]) >= tonumber(ARGV[2]) then
  return 0
end
local time = redis.call('TIME')
local at_ms = string.format('%d', time[1] * 1000 + math.floor(time[2] / 1000))
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'run', ARGV[1], 'generation', ARGV[2], 'available', ARGV[3], 'sold', ARGV[4])
for i = 5, #ARGV, 3 do
  redis.call('HSET', KEYS[1], 'o:' .. ARGV[i], ARGV[i + 1] .. '|' .. ARGV[i + 2] .. '|' .. at_ms)
end
return 1
