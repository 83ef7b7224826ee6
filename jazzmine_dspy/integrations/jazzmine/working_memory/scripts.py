"""What Redis does in one step when a record is shared with jazzmine, in Lua. Every script may be repeated.

The record is jazzmine's text, and the rest of ours another one beside it. jazzmine counts no versions: the
counters hold a sum of the text that the newest version was seen with (``s``), and another text found there is
another version. Else they are those of the records of our own: ``f``, ``t``, ``o``, ``v``, ``w``, ``g``, ``x``
and ``r``. Where the lock can't be reached by the same script, in a cluster, its key is left out.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from jazzmine_dspy.memory.working.redis.scripts import BASICS, WRITES, Script

PRELUDE = (
    BASICS
    + """
local MAIN, META, REST = KEYS[1], KEYS[2], KEYS[3]
local held = kind(MAIN)
local meta_kind = kind(META)
if meta_kind ~= 'hash' and meta_kind ~= 'none' then
  redis.call('DEL', META)
  meta_kind = 'none'
end
local function meta(name) return meta_kind == 'hash' and redis.call('HGET', META, name) or nil end
local function newest() return number(meta('f')) or 0 end
local function highest() return number(meta('v')) or -1 end
local main = held == 'string' and redis.call('GET', MAIN) or false
local function rest() return kind(REST) == 'string' and redis.call('GET', REST) or '' end
local function sum() return main and redis.sha1hex(main) or held end
local function version()
  local v, found = highest(), sum()
  if v < 0 or meta('s') ~= found then
    v = v + 1
    redis.call('HSET', META, 'v', v, 's', found)
    redis.call('HDEL', META, 'g')
    meta_kind = 'hash'
  end
  return v
end
local function record() return version(), main and (main .. '\\n' .. rest()) or false end
local function extend(key, ms)
  local left = redis.call('PTTL', key)
  if left >= 0 and left < tonumber(ms) then redis.call('PEXPIRE', key, ms) end
end
local function touch(ttl, remember)
  extend(MAIN, ttl)
  extend(REST, 2 * ttl)
  redis.call('PEXPIRE', META, remember)
end
local function put(text, beside, ttl)
  local left = redis.call('PTTL', MAIN)
  if left == -1 then
    redis.call('SET', MAIN, text)
  else
    redis.call('SET', MAIN, text, 'PX', string.format('%.0f', math.max(left, ttl)))
  end
  if beside == '' then
    redis.call('DEL', REST)
  else
    redis.call('SET', REST, beside, 'PX', string.format('%.0f', 2 * math.max(left, ttl)))
  end
end
"""
    + WRITES
)


def _filled(script: Script, source: str) -> None:
    object.__setattr__(script, "source", source)
    object.__setattr__(script, "sha", hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest())


@dataclass(frozen=True)
class SharedScript(Script):
    """A script over the parts ``state``, ``meta``, ``rest``, and those that it names behind them."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", ("state", "meta", "rest", *self.parts))
        _filled(self, PRELUDE + self.body)


@dataclass(frozen=True)
class LockScript(Script):
    """A script over a lock alone."""

    def __post_init__(self) -> None:
        _filled(self, self.body)


SHARED = {
    script.name: script
    for script in (
        SharedScript(
            "acquire",
            """
local LOCK, token, lease, ttl, remember = KEYS[4], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
if LOCK and not redis.call('SET', LOCK, token, 'NX', 'PX', lease) and not lock_is(LOCK, token) then
  if redis.call('PTTL', LOCK) == -1 then redis.call('PEXPIRE', LOCK, lease) end
  return false
end
local fence = newest()
if meta('t') ~= token then
  fence = fence + 1
  redis.call('HSET', META, 'f', fence, 't', token, 'o', '1')
  meta_kind = 'hash'
end
touch(ttl, remember)
if held == 'none' then return {fence} end
return {fence, record()}
""",
            ("lock",),
        ),
        SharedScript(
            "renew",
            """
local LOCK, token, fence, lease, ttl, remember = KEYS[4], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local open = newest() == tonumber(fence) and meta('t') == token and meta('o') == '1'
if not LOCK then
  if not open then return 0 end
elseif lock_is(LOCK, token) then
  redis.call('PEXPIRE', LOCK, lease)
elseif redis.call('EXISTS', LOCK) == 0 and open then
  redis.call('SET', LOCK, token, 'PX', lease)
else
  return 0
end
touch(ttl, remember)
return 1
""",
            ("lock",),
        ),
        SharedScript(
            "release",
            """
local LOCK, token = KEYS[4], ARGV[1]
local mine = not LOCK or lock_is(LOCK, token)
if LOCK and mine then redis.call('DEL', LOCK) end
if meta('t') == token and meta('o') ~= '0' then redis.call('HSET', META, 'o', '0') end
return mine and 1 or 0
""",
            ("lock",),
        ),
        SharedScript(
            "read",
            """
if held == 'none' then return false end
touch(ARGV[1], ARGV[2])
return {record()}
""",
            (),
        ),
        SharedScript(
            "peek",
            """
if held == 'none' then return false end
local v = highest()
if v < 0 or meta('s') ~= sum() then v = v + 1 end
return {v, main and (main .. '\\n' .. rest()) or false}
""",
            (),
        ),
        SharedScript(
            "create",
            """
local text, beside, fence, ttl, remember = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
if fence ~= '' and newest() ~= tonumber(fence) then return {-1} end
if held ~= 'none' then
  touch(ttl, remember)
  return {record()}
end
local fresh = highest() + 1
put(text, beside, ttl)
redis.call('HSET', META, 'v', fresh, 's', redis.sha1hex(text), 'f', newest())
redis.call('HDEL', META, 'g')
touch(ttl, remember)
return {fresh}
""",
            (),
        ),
        SharedScript(
            "write",
            """
local LOCK, text, beside, expected, fence = KEYS[4], ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local write_id, turn, release, ttl, remember = ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9]
local fresh = written_before(write_id)
if not fresh then
  if another_began(fence, turn) then return {-1} end
  -- Whoever has the lock now may have read the record already: jazzmine would write over ours.
  if LOCK and turn ~= '' and redis.call('EXISTS', LOCK) == 1 and not lock_is(LOCK, turn) then return {-1} end
  if held == 'none' then return {-2, -1} end
  local found = version()
  if found ~= expected then return {-2, found} end
  fresh = expected + 1
  put(text, beside, ttl)
  redis.call('HSET', META, 'v', fresh, 's', redis.sha1hex(text), 'w', writes_with(write_id, fresh))
  touch(ttl, remember)
end
if release ~= '' then
  if LOCK and lock_is(LOCK, release) then redis.call('DEL', LOCK) end
  if meta('t') == release then redis.call('HSET', META, 'o', '0') end
end
return {1, fresh}
""",
            ("lock",),
        ),
        SharedScript(
            "presence",
            """
if held ~= 'none' then return 'present' end
return meta('g') or (meta('v') and 'expired') or 'absent'
""",
            (),
        ),
        SharedScript(
            "delete",
            """
local ASIDE, id, remember = KEYS[4], ARGV[1], ARGV[2]
local aside = redis.call('HKEYS', ASIDE)
local there = (held ~= 'none' or #aside > 0 or meta('x') == id) and 1 or 0
redis.call('DEL', MAIN, REST)
if there == 1 or meta_kind == 'hash' then
  redis.call('HSET', META, 'g', 'absent')
  if there == 1 then redis.call('HSET', META, 'x', id) end
  if redis.call('PTTL', META) == -1 then redis.call('PEXPIRE', META, remember) end
end
return {there, aside}
""",
            ("aside",),
        ),
        SharedScript(
            "drop_aside",
            "redis.call('DEL', KEYS[5]) return redis.call('HDEL', KEYS[4], ARGV[1])",
            ("aside", "aside:{id}"),
        ),
        SharedScript(
            "set_aside",
            """
local ASIDE, TARGET, id, cause = KEYS[4], KEYS[5], ARGV[1], ARGV[2]
local wanted, sha, remember = ARGV[3], ARGV[4], ARGV[5]
if redis.call('HEXISTS', ASIDE, id) == 1 then return id end
if held == 'none' then return false end
local v, data = record()
if wanted ~= '' and (v ~= tonumber(wanted) or (data and redis.sha1hex(data) or '') ~= sha) then return false end
local last = 0
for _, entry in ipairs(redis.call('HVALS', ASIDE)) do
  last = math.max(last, number(string.match(entry, '^%d+')) or 0)
end
local now = redis.call('TIME')
if data then
  redis.call('HSET', TARGET, 'd', data)
  redis.call('DEL', MAIN)
else
  redis.call('RENAME', MAIN, TARGET)
end
redis.call('DEL', REST)
redis.call('PERSIST', TARGET)
redis.call('HSET', ASIDE, id, string.format('%.0f %s.%06d ', last + 1, now[1], now[2]) .. cause)
redis.call('HSET', META, 'g', 'unreadable')
if redis.call('PTTL', META) == -1 then redis.call('PEXPIRE', META, remember) end
return id
""",
            ("aside", "aside:{id}"),
        ),
        SharedScript("asides", "return redis.call('HGETALL', KEYS[4])", ("aside",)),
        SharedScript(
            "one_aside",
            """
if kind(KEYS[4]) ~= 'hash' then return false end
return redis.call('HGET', KEYS[4], 'd')
""",
            ("aside:{id}",),
        ),
        SharedScript(
            "restore",
            """
local ASIDE, SOURCE, id, ttl, remember = KEYS[4], KEYS[5], ARGV[1], ARGV[2], ARGV[3]
if redis.call('HEXISTS', ASIDE, id) == 0 then return meta('r') == id and 1 or -1 end
if held ~= 'none' then return -2 end
local data = kind(SOURCE) == 'hash' and redis.call('HGET', SOURCE, 'd')
if not data then return -3 end
local text, beside = string.match(data, '^(.*)\\n([^\\n]*)$')
put(text, beside, ttl)
redis.call('DEL', SOURCE)
redis.call('HDEL', ASIDE, id)
redis.call('HSET', META, 'v', highest() + 1, 's', redis.sha1hex(text), 'r', id)
redis.call('HDEL', META, 'g')
touch(ttl, remember)
return 1
""",
            ("aside", "aside:{id}"),
        ),
    )
}
"""By the names of the scripts for records of our own, whose arguments they take."""

TAKE_LOCK = LockScript(
    "take_lock",
    """
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  if redis.call('PTTL', KEYS[1]) == -1 then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
  return 0
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
""",
    ("lock",),
)
"""Takes the lock, or holds the one that the token has for another lease."""
DROP_LOCK = LockScript(
    "drop_lock",
    """
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
""",
    ("lock",),
)
