-- All that ever happens to a lock. Four keys, of one hash slot:
--   NUMBER  string: the number granted last
--   HELD    hash:   who holds the lock -> the number
--   QUEUE   zset:   who waits for it, in the order of arrival
--   UNTIL   zset:   until when each of both is alive, in ms by this clock
--   GRAVE   string: there if this acquisition must not come (back) to life
-- A member is its mode, x or s, its holder, ":", and the locker that it is of.
--
-- The two usual cases come first, and what they do not need after them: to make
-- the functions of a script takes as long as some calls.
--
-- Redis looks whether its memory is full before the first write of a script
-- only. What takes nothing new begins with one that is always allowed, so that
-- it can be done with full memory too: to leave with HDEL, to live on with
-- PEXPIREAT.
local NUMBER, HELD, QUEUE, UNTIL, GRAVE = unpack(KEYS)
local op, me, ttl, floor, channel = unpack(ARGV)

-- How long a number is kept that nobody uses: after a clock has been set back
-- by less than that, numbers rise on.
local KEEP = 7 * 24 * 3600 * 1000

-- forget says whether member was there.
local function forget(member)
  local there = redis.call('HDEL', HELD, member) == 1 or redis.call('ZREM', QUEUE, member) == 1
  redis.call('ZREM', UNTIL, member)
  return there
end

local leaves, left = op == 'leave' or op == 'bury', nil
if leaves then
  left = {forget(me) and 'left' or 'gone'}
  if op == 'bury' then redis.call('SET', GRAVE, '1', 'PX', ttl) end
  if redis.call('EXISTS', QUEUE) == 0 then return left end
end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- 1.8e15, and so exact as a double until the year 2255.
local micros = time[1] .. string.format('%06d', time[2])

-- Numbers may be above 2^53, where doubles repeat, so they stay strings.
local function below(a, b)
  if #a ~= #b then return #a < #b end
  return a < b
end

-- lapse lets the number go when it has long been below the clock.
local function lapse(number)
  if below(number, '9007199254740992') then
    redis.call('PEXPIREAT', NUMBER, string.format('%.0f', math.max(now, number / 1000) + KEEP))
  else
    redis.call('PERSIST', NUMBER)
  end
end

local function raise()
  if below(redis.call('GET', NUMBER) or '0', floor) then
    redis.call('SET', NUMBER, floor)
    lapse(floor)
  end
end

-- mint returns max(NUMBER, clock) + 1. It comes before anything else is done
-- for a grant: if it fails there is no trace of a lock.
local function mint()
  if below(redis.call('GET', NUMBER) or '0', micros) then
    local number = string.format('%.0f', micros + 1)
    redis.call('SET', NUMBER, number, 'PX', KEEP)
    return number
  end
  redis.call('INCR', NUMBER)
  local number = redis.call('GET', NUMBER)
  lapse(number)
  return number
end

-- Where there is nobody this does what the rest would do.
if (op == 'acquire' or op == 'try') and redis.call('EXISTS', UNTIL, HELD, QUEUE, GRAVE) == 0 then
  if floor ~= '0' then raise() end
  local number = mint()
  redis.call('ZADD', UNTIL, now + ttl, me)
  redis.call('HSET', HELD, me, number)
  redis.call('PEXPIREAT', UNTIL, now + ttl + 1000)
  redis.call('PEXPIREAT', HELD, now + ttl + 1000)
  return {'granted', number}
end

local function exclusive(member) return string.sub(member, 1, 1) == 'x' end

-- linger has keys outlive everybody in them, and not for ever.
local function linger(...)
  local last = redis.call('ZREVRANGE', UNTIL, 0, 0, 'WITHSCORES')[2]
  if not last then return end
  for _, key in ipairs({...}) do
    redis.call('PEXPIREAT', key, last + 1000)
  end
end

-- fits says whether member can hold the lock beside those who do.
local function fits(member)
  local holders = redis.call('HLEN', HELD)
  if holders == 0 then return true end
  if exclusive(member) then return false end
  return holders > 1 or not exclusive(redis.call('HKEYS', HELD)[1])
end

-- advance grants to those whose turn it is, and tells them.
local function advance()
  while true do
    local head = redis.call('ZRANGE', QUEUE, 0, 0)[1]
    if not head or not fits(head) then return end
    local number = mint()
    redis.call('HSET', HELD, head, number)
    redis.call('ZREM', QUEUE, head)
    linger(HELD)
    if head ~= me then
      -- May fail: then they find out when they ask.
      redis.pcall('PUBLISH', channel .. string.match(head, ':(.*)$'), head .. ' ' .. number)
    end
    if exclusive(head) then return end
  end
end

for _, member in ipairs(redis.call('ZRANGEBYSCORE', UNTIL, '-inf', now)) do
  forget(member)
end
if leaves then
  advance()
  return left
end

if redis.call('HGET', HELD, me) or redis.call('ZSCORE', QUEUE, me) then
  redis.call('PEXPIREAT', UNTIL, now + ttl + 1000)
  redis.call('ZADD', UNTIL, now + ttl, me)
  advance()
else
  advance()
  if op == 'keep' then return {'gone'} end
  if redis.call('EXISTS', GRAVE) == 1 then return {'dead'} end
  local free = redis.call('EXISTS', QUEUE) == 0 and fits(me)
  if op == 'try' and not free then return {'busy'} end
  if floor ~= '0' then raise() end
  local number = free and mint()
  redis.call('ZADD', UNTIL, now + ttl, me)
  if free then
    redis.call('HSET', HELD, me, number)
  else
    local last = redis.call('ZREVRANGE', QUEUE, 0, 0, 'WITHSCORES')[2] or 0
    redis.call('ZADD', QUEUE, last + 1, me)
  end
end
linger(UNTIL, HELD, QUEUE)

local number = redis.call('HGET', HELD, me)
if number then return {'granted', number} end
-- The head of the queue is told when to ask again: nobody wakes it when a
-- holder just dies.
local wait = -1
if redis.call('ZRANGE', QUEUE, 0, 0)[1] == me then
  wait = redis.call('ZRANGE', UNTIL, 0, 0, 'WITHSCORES')[2] - now
end
return {'waiting', tostring(wait)}
