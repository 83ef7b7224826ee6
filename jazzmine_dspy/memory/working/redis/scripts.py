"""What Redis does in one step, in Lua. Every script may be repeated when its answer was lost.

The record is a hash: ``v`` its version, ``f`` the fencing number of the turn that wrote it, ``d`` its bytes.
The counters are a hash that outlives it: ``f`` the newest fencing number, ``t`` the token it was given to,
``o`` whether that turn is open, ``v`` the newest version, ``w`` the last writes with their versions, ``g`` why
the record is gone, ``x`` the last deletion, ``r`` the last one put back. Both keep the fencing number, so that
an evicted hash does not start it over.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

BASICS = """
local function kind(key) return redis.call('TYPE', key).ok end
local function number(text)
  local n = tonumber(text or '')
  if n and n >= 0 and n < 9e15 and n == math.floor(n) then return n end
end
local function lock_is(key, token) return redis.pcall('GET', key) == token end
"""

WRITES = """
local function another_began(fence, turn)
  local owner = meta('t')
  return newest() ~= fence or (turn ~= '' and owner and owner ~= turn)
end
local function written_before(write_id)
  local writes = ' ' .. (meta('w') or '')
  local at, past = string.find(writes, ' ' .. write_id .. '=', 1, true)
  return at and number(string.match(writes, '^%d+', past + 1)) or nil
end
local function writes_with(write_id, version)
  local kept, n = write_id .. '=' .. string.format('%.0f', version), 1
  for entry in string.gmatch(meta('w') or '', '%S+') do
    if n == 8 then break end
    kept, n = kept .. ' ' .. entry, n + 1
  end
  return kept
end
"""
"""What is asked of the counters at every write, whatever the record is: it calls ``meta``, ``newest``, ``number``."""

PRELUDE = (
    BASICS
    + """
local STATE, META = KEYS[1], KEYS[2]
local places = {f = 1, t = 2, o = 3, v = 4, w = 5, g = 6, x = 7, r = 8}
local counters = redis.pcall('HMGET', META, 'f', 't', 'o', 'v', 'w', 'g', 'x', 'r')
if counters.err then
  redis.call('DEL', META)
  counters = {}
end
local function meta(name) return counters[places[name]] or nil end
local found = redis.pcall('HMGET', STATE, 'v', 'f')
local held = 'hash'
if found.err then
  held, found = 'odd', {}
elseif not found[1] and not found[2] then
  held = kind(STATE)
end
local function data() return held == 'hash' and redis.call('HGET', STATE, 'd') or false end
local function newest() return math.max(number(meta('f')) or 0, number(found[2]) or 0) end
local function version() return number(found[1]) or number(meta('v')) or 0 end
local function highest() return math.max(number(meta('v')) or -1, number(found[1]) or -1) end
local function touch(ttl, remember)
  redis.call('PEXPIRE', STATE, ttl)
  redis.call('PEXPIRE', META, remember)
end
local function record() return {version(), data()} end
"""
    + WRITES
)


@dataclass(frozen=True)
class Script:
    """A script and the parts of a conversation that it works on, in the order of its KEYS."""

    name: str
    body: str
    parts: tuple[str, ...]
    source: str = field(init=False)
    sha: str = field(init=False)

    def __post_init__(self) -> None:
        source = PRELUDE + self.body
        object.__setattr__(self, "source", source)
        object.__setattr__(self, "sha", hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest())


ACQUIRE = Script(
    "acquire",
    """
local LOCK, token, lease, ttl, remember = KEYS[3], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local fence = newest()
if not lock_is(LOCK, token) then
  if not redis.call('SET', LOCK, token, 'NX', 'PX', lease) then
    -- A lock without an expiry, or with one far in the future, would close the conversation for good.
    local left = redis.call('PTTL', LOCK)
    if left == -1 or left > 4 * lease then redis.call('PEXPIRE', LOCK, lease) end
    return false
  end
  fence = fence + 1
  redis.call('HSET', META, 'f', fence, 't', token, 'o', '1')
end
touch(ttl, remember)
if held == 'none' then return {fence} end
return {fence, version(), data()}
""",
    ("state", "meta", "lock"),
)

RENEW = Script(
    "renew",
    """
local LOCK, token, fence, lease, ttl, remember = KEYS[3], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
if lock_is(LOCK, token) then
  redis.call('PEXPIRE', LOCK, lease)
elseif redis.call('EXISTS', LOCK) == 0 and newest() == tonumber(fence)
  and meta('t') == token and meta('o') == '1' then
  redis.call('SET', LOCK, token, 'PX', lease)
else
  return 0
end
touch(ttl, remember)
return 1
""",
    ("state", "meta", "lock"),
)

RELEASE = Script(
    "release",
    """
local LOCK, token = KEYS[3], ARGV[1]
local mine = lock_is(LOCK, token)
if mine then redis.call('DEL', LOCK) end
if meta('t') == token and meta('o') ~= '0' then redis.call('HSET', META, 'o', '0') end
return mine and 1 or 0
""",
    ("state", "meta", "lock"),
)

READ = Script(
    "read",
    """
if held == 'none' then return false end
touch(ARGV[1], ARGV[2])
return record()
""",
    ("state", "meta"),
)

CREATE = Script(
    "create",
    """
local fence, ttl, remember = ARGV[2], ARGV[3], ARGV[4]
if fence ~= '' and newest() ~= tonumber(fence) then return {-1} end
if held ~= 'none' then
  touch(ttl, remember)
  return record()
end
local fresh = highest() + 1
redis.call('HSET', STATE, 'v', fresh, 'f', newest(), 'd', ARGV[1])
redis.call('HSET', META, 'v', fresh)
redis.call('HDEL', META, 'g')
touch(ttl, remember)
return {fresh}
""",
    ("state", "meta"),
)

WRITE = Script(
    "write",
    """
local LOCK, expected, fence = KEYS[3], tonumber(ARGV[2]), tonumber(ARGV[3])
local write_id, turn, release, ttl, remember = ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8]
local fresh = written_before(write_id)
if not fresh then
  if another_began(fence, turn) then return {-1} end
  if held ~= 'hash' then return {-2, -1} end
  if version() ~= expected then return {-2, version()} end
  fresh = expected + 1
  redis.call('HSET', STATE, 'v', fresh, 'f', fence, 'd', ARGV[1])
  redis.call('HSET', META, 'v', fresh, 'w', writes_with(write_id, fresh))
  touch(ttl, remember)
end
if release ~= '' and lock_is(LOCK, release) then
  redis.call('DEL', LOCK)
  redis.call('HSET', META, 'o', '0')
end
return {1, fresh}
""",
    ("state", "meta", "lock"),
)

PRESENCE = Script(
    "presence",
    """
if held ~= 'none' then return 'present' end
return meta('g') or (meta('v') and 'expired') or 'absent'
""",
    ("state", "meta"),
)

DELETE = Script(
    "delete",
    """
local ASIDE, id, remember = KEYS[3], ARGV[1], ARGV[2]
local aside = redis.call('HKEYS', ASIDE)
-- A repetition that comes late finds what was made since, and leaves it alone.
if meta('x') == id then return {1, aside} end
local there = (held ~= 'none' or #aside > 0) and 1 or 0
local fence, top = newest(), highest()
redis.call('DEL', STATE)
if there == 1 or meta('f') or meta('v') then
  redis.call('HSET', META, 'g', 'absent', 'f', fence)
  if top >= 0 then redis.call('HSET', META, 'v', top) end
  if there == 1 then redis.call('HSET', META, 'x', id) end
  if redis.call('PTTL', META) == -1 then redis.call('PEXPIRE', META, remember) end
end
return {there, aside}
""",
    ("state", "meta", "aside"),
)

DROP_ASIDE = Script(
    "drop_aside",
    """
redis.call('DEL', KEYS[4])
return redis.call('HDEL', KEYS[3], ARGV[1])
""",
    ("state", "meta", "aside", "aside:{id}"),
)

SET_ASIDE = Script(
    "set_aside",
    """
local ASIDE, TARGET, id, cause = KEYS[3], KEYS[4], ARGV[1], ARGV[2]
local wanted, sha, remember = ARGV[3], ARGV[4], ARGV[5]
if redis.call('HEXISTS', ASIDE, id) == 1 then return id end
if held == 'none' then return false end
if wanted ~= '' then
  local now = data()
  if version() ~= tonumber(wanted) or (now and redis.sha1hex(now) or '') ~= sha then return false end
end
local last = 0
for _, entry in ipairs(redis.call('HVALS', ASIDE)) do
  last = math.max(last, number(string.match(entry, '^%d+')) or 0)
end
local now, top, fence = redis.call('TIME'), math.max(highest(), 0), newest()
redis.call('RENAME', STATE, TARGET)
redis.call('PERSIST', TARGET)
redis.call('HSET', ASIDE, id, string.format('%.0f %s.%06d ', last + 1, now[1], now[2]) .. cause)
redis.call('HSET', META, 'g', 'unreadable', 'v', top, 'f', fence)
if redis.call('PTTL', META) == -1 then redis.call('PEXPIRE', META, remember) end
return id
""",
    ("state", "meta", "aside", "aside:{id}"),
)

ASIDES = Script("asides", "return redis.call('HGETALL', KEYS[3])", ("state", "meta", "aside"))

ONE_ASIDE = Script(
    "one_aside",
    """
if kind(KEYS[3]) ~= 'hash' then return false end
return redis.call('HGET', KEYS[3], 'd')
""",
    ("state", "meta", "aside:{id}"),
)

RESTORE = Script(
    "restore",
    """
local ASIDE, SOURCE, id, ttl, remember = KEYS[3], KEYS[4], ARGV[1], ARGV[2], ARGV[3]
if redis.call('HEXISTS', ASIDE, id) == 0 then return meta('r') == id and 1 or -1 end
if held ~= 'none' then return -2 end
if kind(SOURCE) ~= 'hash' or redis.call('HEXISTS', SOURCE, 'd') == 0 then return -3 end
local fence, top = newest(), math.max(highest(), number(redis.call('HGET', SOURCE, 'v')) or 0)
redis.call('HSET', SOURCE, 'v', top + 1, 'f', fence)
redis.call('RENAME', SOURCE, STATE)
redis.call('HDEL', ASIDE, id)
redis.call('HSET', META, 'v', top + 1, 'r', id)
redis.call('HDEL', META, 'g')
touch(ttl, remember)
return 1
""",
    ("state", "meta", "aside", "aside:{id}"),
)
