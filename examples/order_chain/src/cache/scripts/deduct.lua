-- KEYS: product. ARGV: run, order, reservation, quantity.
-- The check for an earlier deduction is in here: outside, two requests of one client could both pass it.
local there = redis.call('HMGET', KEYS[1], 'run', 'generation', 'available', 'o:' .. ARGV[2])
if there[1] ~= ARGV[1] then
  return {'unknown'}
end
if there[4] then
  return {'before', there[2], there[4]}
end
if tonumber(there[3]) < tonumber(ARGV[4]) then
  return {'not_enough', there[3]}
end
local time = redis.call('TIME')
local at_ms = string.format('%d', time[1] * 1000 + math.floor(time[2] / 1000))
redis.call('HINCRBY', KEYS[1], 'available', -tonumber(ARGV[4]))
redis.call('HSET', KEYS[1], 'o:' .. ARGV[2], ARGV[3] .. '|' .. ARGV[4] .. '|' .. at_ms)
return {'deducted', there[2]}
