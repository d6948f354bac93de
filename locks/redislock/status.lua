-- What is known of a lock. It only reads, also of what is over: the next
-- request of lock.lua removes that. Its keys are the first four of lock.lua.
local NUMBER, HELD, QUEUE, UNTIL = unpack(KEYS)
local time = redis.call('TIME')
return {
  time[1] * 1000 + math.floor(time[2] / 1000),
  redis.call('HGETALL', HELD),
  redis.call('ZRANGE', QUEUE, 0, -1),
  redis.call('ZRANGE', UNTIL, 0, -1, 'WITHSCORES'),
}
