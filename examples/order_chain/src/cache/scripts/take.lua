-- KEYS: product. ARGV: order, reservation, the counter that gets its units.
local there = redis.call('HGET', KEYS[1], 'o:' .. ARGV[1])
if not there then
  return 0
end
local id, quantity = string.match(there, '^([^|]+)|(%d+)|')
if id ~= ARGV[2] then
  return 0
end
redis.call('HDEL', KEYS[1], 'o:' .. ARGV[1])
redis.call('HINCRBY', KEYS[1], ARGV[3], quantity)
return 1
