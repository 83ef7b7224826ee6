"""Turns on a real Redis while workers are killed and paused, connections cut, messages delivered again and records
damaged; then a count of what came of them: nothing that was acknowledged is missing, nothing is there twice.

Worker processes take turns over a few contended conversations, through a proxy that breaks connections. A turn is
acknowledged when the worker that wrote it has told this process so, which keeps the books; a delivery that ends in
anything else is made again, as a queue would. Every turn appends its message's id to a list in the conversation's
record, so the lists say what was applied:

- lost: acknowledged, and in no list;
- doubled: in the lists more than once.

Where a record is damaged or expires, the list that was in it is kept aside in the same step, and counted too. That
happens while no delivery of the conversation is under way: what has been done is known from the record, so what is
delivered both before and after its loss cannot but be done twice.

With failovers, a replica takes the server's place every so many turns: in turn handed over, so that connections to the
former primary stay open, and by killing that, once its writes are copied. The proxy then leads to the new primary.

Run: make chaos, or python tools/chaos.py --turns 2000 --failover-every 500 --json
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from redis.asyncio import Redis

from jazzmine_dspy.memory.working.redis import RedisWorkingMemoryStore

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests" / "support"))

import fault_proxy
import redis_servers
import turn_worker
import worker_processes

PREFIX = "chaos"
LENGTH = 100
AT_ONCE = 20
DEEP = 6
WINDOW = 30
"""Messages that may be under way in a conversation beyond the oldest; a record knows the last fifty."""
TIMES = {"lease": 1.0, "wait": 30.0, "timeout": 2.0}
RATES = {
    "cut_request": 0.002,
    "cut_midway": 0.001,
    "cut_reply": 0.003,
    "half_close": 0.001,
    "delay": 0.004,
    "blackhole": 0.0003,
}
DAMAGE = ("truncated", "not JSON", "unknown status", "another type", "expired")
DAMAGED = {"truncated": b'{"conversation_id": "', "not JSON": b"\x00\xff", "unknown status": b""}

# The list is saved and the record damaged in one step, so that no write can come between.
HURT = """
local data = redis.call('GET', KEYS[1])
if not data then return 0 end
redis.call('RPUSH', KEYS[2], data)
if ARGV[1] == 'expired' then
  redis.call('PEXPIRE', KEYS[1], 0)
elseif ARGV[1] == 'another type' then
  redis.call('DEL', KEYS[1])
  redis.call('RPUSH', KEYS[1], 'odd')
elseif ARGV[1] == 'unknown status' then
  redis.call('SET', KEYS[1], (string.gsub(data, '"status":"active"', '"status":"dancing"', 1)), 'KEEPTTL')
else
  redis.call('SET', KEYS[1], ARGV[2], 'KEEPTTL')
end
return 1
"""


@dataclass
class Books:
    """What was asked for and what was heard, apart from what is stored."""

    attempted: int = 0
    duplicates: int = 0
    acknowledged: dict[str, str] = field(default_factory=dict)
    written: Counter[tuple[str, int]] = field(default_factory=Counter)
    heard: Counter[str] = field(default_factory=Counter)
    hurt: Counter[str] = field(default_factory=Counter)
    kills: list[dict[str, int]] = field(default_factory=list)
    pauses: list[int] = field(default_factory=list)
    failovers: Counter[str] = field(default_factory=Counter)
    progress: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def note(self, conversation: str, message: str, event: dict[str, Any]) -> bool:
        """Enter the end of a delivery; whether it acknowledges the message."""
        kind = event["event"]
        self.heard[kind] += 1
        if kind not in ("applied", "repeated"):
            return False
        if kind == "applied":
            self.written[conversation, event["version"]] += 1
        self.acknowledged.setdefault(message, conversation)
        async with self.progress:
            self.progress.notify_all()
        return True

    async def reached(self, turns: int) -> None:
        async with self.progress:
            await self.progress.wait_for(lambda: len(self.acknowledged) >= turns)

    @property
    def stale(self) -> int:
        return self.heard["TurnLostError"] + self.heard["StaleStateError"]


class Chaos:
    """One run."""

    def __init__(self, turns: int, workers: int, every: int, seed: int, servers: Any, proxies: Any) -> None:
        self.turns, self.count, self.failover_every = turns, workers, every
        self.random = random.Random(seed)
        self.servers, (self.proxy, self.direct) = list(servers), proxies
        # Nothing is damaged while the servers change places.
        self.changing = asyncio.Lock()
        self.books = Books()
        self.alive: list[Any] = []
        self.starting: list[asyncio.Task[None]] = []
        self.traps: deque[Callable[[Any], Awaitable[None]]] = deque()
        self.store = RedisWorkingMemoryStore(self.direct.url, prefix=PREFIX, timeout=30.0)
        self.client = Redis.from_url(self.direct.url)
        names = [f"c{n}" for n in range(-(-turns // LENGTH))]
        self.messages = {
            name: [f"{name}.{n}" for n in range(min(LENGTH, turns - LENGTH * index))]
            for index, name in enumerate(names)
        }
        self.rests = self._planned_rests()

    def _planned_rests(self) -> dict[tuple[str, int], str]:
        """Before which messages of a conversation its record is damaged, and how."""
        rests = {}
        kinds = deque(DAMAGE)
        for _ in range(6 + self.turns // 1000):
            name = self.random.choice(list(self.messages))
            rests[name, self.random.randrange(1, max(2, len(self.messages[name])))] = kinds[0]
            kinds.rotate(-1)
        return rests

    # --- deliveries --------------------------------------------------------------------------------------

    async def _attempt(self, conversation: str, message: str) -> bool:
        worker = self.random.choice(self.alive)
        self.books.attempted += 1
        trap = self.traps.popleft() if self.traps else None
        number = worker.deliver(conversation, message, hold=trap is not None)
        event = await worker.event(number)
        if trap is not None:
            if event["event"] == "inside":
                await trap(worker)
                worker.go(number)
                event = await worker.event(number)
            else:
                # It was done already, or did not come so far.
                self.traps.append(trap)
        worker.forget(number)
        return await self.books.note(conversation, message, event)

    async def _delivered(self, conversation: str, message: str) -> None:
        """Deliver until it is acknowledged; now and then at once to two workers, or once more afterwards."""
        again = [self._again(conversation, message)] if self.random.random() < 0.05 else []
        while not await self._attempt(conversation, message):
            pass
        if self.random.random() < 0.05:
            again.append(self._again(conversation, message))
        await asyncio.gather(*again)

    async def _again(self, conversation: str, message: str) -> None:
        self.books.duplicates += 1
        await self._attempt(conversation, message)

    async def _drive(self, names: Iterator[str]) -> None:
        for conversation in names:
            running: dict[asyncio.Task[None], int] = {}

            async def done(*, to: int, running: dict[asyncio.Task[None], int] = running) -> None:
                while len(running) > to:
                    ended, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                    for task in ended:
                        del running[task]
                        task.result()

            for index, message in enumerate(self.messages[conversation]):
                if (conversation, index) in self.rests:
                    await done(to=0)
                    await self._hurt(conversation, self.rests[conversation, index])
                while running and index - min(running.values()) >= WINDOW:
                    await done(to=len(running) - 1)
                await done(to=DEEP - 1)
                running[asyncio.create_task(self._delivered(conversation, message))] = index
            await done(to=0)

    # --- faults ------------------------------------------------------------------------------------------

    async def _hurt(self, conversation: str, kind: str) -> None:
        keys = [self.store.key(conversation, part) for part in ("state", "saved")]
        damaged = DAMAGED.get(kind, b"")
        async with self.changing:
            self.books.hurt[kind] += int(await self.client.eval(HURT, 2, *keys, kind, damaged))

    async def _kill(self, worker: Any) -> None:
        """Kill a worker that is in the middle of a turn, and start another one."""
        if worker not in self.alive or len(self.alive) < 2:
            return
        self.alive.remove(worker)
        self.starting.append(asyncio.create_task(self._replaced(worker.pid, await worker.kill())))

    async def _replaced(self, pid: int, code: int) -> None:
        fresh = await worker_processes.WorkerProcess.start(self.proxy.url, PREFIX, **TIMES)
        self.alive.append(fresh)
        self.books.kills.append({"pid": pid, "signal": -code, "followed_by": fresh.pid})

    async def _pause(self, worker: Any) -> None:
        """Pause a worker that is in the middle of a turn for longer than its lease, and let it go on."""
        if worker not in self.alive:
            return
        await worker.stop()
        self.books.pauses.append(worker.pid)
        await asyncio.sleep(TIMES["lease"] * 1.5)
        worker.resume()

    async def _disturb(self) -> None:
        times = 2 + self.turns // 1500
        for n in range(times):
            await self.books.reached(self.turns * (2 * n + 1) // (2 * times + 1))
            self.traps.append(self._kill)
            await self.books.reached(self.turns * (2 * n + 2) // (2 * times + 1))
            self.traps.append(self._pause)

    async def _fail_over(self) -> None:
        """Let primary and replica change places, every so many turns."""
        for number, turns in enumerate(range(self.failover_every, self.turns, self.failover_every)):
            change = (redis_servers.hand_over, redis_servers.promote)[number % 2]
            await self.books.reached(turns)
            primary, replica = self.servers
            async with self.changing:
                await asyncio.to_thread(change, primary, replica)
                self.proxy.target = self.direct.target = replica.port
                await self.client.connection_pool.disconnect()
                if change is redis_servers.promote:
                    await asyncio.to_thread(primary.start)
                    await asyncio.to_thread(redis_servers.follow, primary, replica)
            self.books.failovers[change.__name__] += 1
            self.servers.reverse()

    async def _tell(self) -> None:
        began = time.monotonic()
        for tenth in range(1, 10):
            await self.books.reached(self.turns * tenth // 10)
            spent = time.monotonic() - began
            print(f"{tenth}0 % after {spent:.0f} s: {dict(self.books.heard)}", file=sys.stderr, flush=True)

    # --- the run -----------------------------------------------------------------------------------------

    async def run(self) -> dict[str, Any]:
        began = time.monotonic()
        info = await self.client.info("server")
        async with worker_processes.workers(self.count, self.proxy.url, PREFIX, **TIMES) as self.alive:
            first = sorted(worker.pid for worker in self.alive)
            others = [asyncio.create_task(each()) for each in (self._disturb, self._tell)]
            if self.failover_every:
                others.append(asyncio.create_task(self._fail_over()))
            names = iter(self.messages)
            await asyncio.gather(*(self._drive(names) for _ in range(AT_ONCE)))
            await asyncio.gather(*others, *self.starting)
        report = await self._audited()
        report |= {
            "turns": self.turns,
            "attempted": self.books.attempted,
            "delivered_again": self.books.duplicates,
            "heard": dict(self.books.heard),
            "stale_refused": self.books.stale,
            "hurt": dict(self.books.hurt),
            "workers": first,
            "kills": self.books.kills,
            "pauses": self.books.pauses,
            "failovers": dict(self.books.failovers),
            "failovers_due": (self.turns - 1) // self.failover_every if self.failover_every else 0,
            "network": dict(self.proxy.done),
            "server": {
                "version": info.get("valkey_version") or info["redis_version"],
                "run_id": info["run_id"],
                "same_at_the_end": bool(self.books.failovers)
                or info["run_id"] == (await self.client.info())["run_id"],
            },
            "seconds": round(time.monotonic() - began, 1),
        }
        await asyncio.gather(self.store.close(), self.client.aclose())
        return report

    async def _audited(self) -> dict[str, Any]:
        """Count what is stored against the books."""
        log_of = turn_worker.log_of
        found: Counter[str] = Counter()
        aside = 0
        for conversation in self.messages:
            found.update(log_of(await self.store.get(conversation)))
            for data in await self.client.lrange(self.store.key(conversation, "saved"), 0, -1):
                state = self.store.decode(data, conversation)
                found.update(log_of(state))
            aside += len(await self.store.quarantined(conversation))
        return {
            "applied": len(found),
            "acknowledged": len(self.books.acknowledged),
            "doubled": sum(times > 1 for times in found.values()),
            "lost": sum(message not in found for message in self.books.acknowledged),
            "versions_written_twice": sum(times > 1 for times in self.books.written.values()),
            "quarantined": aside,
        }


def held(report: dict[str, Any]) -> bool:
    """Whether all that was promised was kept, and the faults did happen."""
    damaged = sum(times for kind, times in report["hurt"].items() if kind != "expired")
    return (
        report["lost"] == report["doubled"] == report["versions_written_twice"] == 0
        and report["applied"] == report["acknowledged"] == report["turns"]
        and report["quarantined"] == damaged > 0
        and report["server"]["same_at_the_end"]
        and sum(report["failovers"].values()) == report["failovers_due"]
        and all(kill["signal"] == 9 for kill in report["kills"])
        and len(report["kills"]) > 0 < len(report["pauses"])
        and report["network"].get("cut_reply", 0) > 0
    )


def shown(report: dict[str, Any]) -> str:
    """The report as a table."""
    rows = {
        "turns attempted": report["attempted"],
        "applied": f"{report['applied']} of {report['turns']}",
        "doubled": report["doubled"],
        "lost": report["lost"],
        "stale writes refused": report["stale_refused"],
        "quarantined": report["quarantined"],
        "records damaged": ", ".join(f"{kind} {times}" for kind, times in sorted(report["hurt"].items())),
        "delivered again": report["delivered_again"],
        "workers killed": ", ".join(f"{k['pid']} → {k['followed_by']}" for k in report["kills"]),
        "workers paused": ", ".join(map(str, report["pauses"])),
        "failovers": ", ".join(f"{how} {times}" for how, times in report["failovers"].items()) or "none",
        "network": ", ".join(f"{name} {report['network'].get(name, 0)}" for name in RATES),
        "deliveries ended": ", ".join(f"{kind} {times}" for kind, times in sorted(report["heard"].items())),
        "server": f"{report['server']['version']}, run_id {report['server']['run_id']}",
        "seconds": report["seconds"],
    }
    width = max(map(len, rows))
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows.items())


async def run(turns: int, workers: int, seed: int, name: str = "", failover_every: int = 0) -> dict[str, Any]:
    """Start a server, with its replica where there are failovers, and a proxy, and make one run over them."""
    async with AsyncExitStack() as stack:
        started = redis_servers.pair(name) if failover_every else redis_servers.server(name)
        servers = stack.enter_context(started)
        servers = servers if failover_every else (servers,)
        proxies = [
            await stack.enter_async_context(fault_proxy.Proxy(servers[0].port, rates=rates, seed=seed))
            for rates in (RATES, None)
        ]
        return await Chaos(turns, workers, failover_every, seed, servers, proxies).run()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--turns", type=int, default=50_000)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--server", default="", help="valkey or redis-6.2; the first that is here")
    parser.add_argument("--failover-every", type=int, default=0, help="so many turns; 0 for never")
    parser.add_argument("--json", action="store_true", help="print one document in place of the table")
    parser.add_argument("--out", type=Path, help="write what is printed to this file as well")
    given = parser.parse_args()
    report = asyncio.run(run(given.turns, given.workers, given.seed, given.server, given.failover_every))
    printed = json.dumps(report, indent=1) if given.json else shown(report)
    print(printed)
    if given.out:
        given.out.parent.mkdir(exist_ok=True)
        given.out.write_text(printed + "\n", "utf-8")
    if not held(report):
        print("Not all that was promised was kept.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
