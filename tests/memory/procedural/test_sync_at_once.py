"""Three syncs of different flows at once, their requests in every order that chance gives: what is left is whole."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from jazzmine_dspy import FlowRegistry
from jazzmine_dspy.memory.procedural._wanted import MANIFEST, Place, wanted_points
from jazzmine_dspy.memory.procedural.engine import Branch, Hit, Layout, StoredPoint, Where
from jazzmine_dspy.memory.procedural.sync import Sync

OWN, THEIRS = Layout("own", 2), Layout("theirs", 2)
NAMES = ("x", "y")
Spec = dict[str, int | None]


class Ended(BaseException):
    """The process of a sync is gone."""


class Turns:
    """Lets one of several threads go on at a time, drawn at random: every interleaving may come."""

    def __init__(self, rng: random.Random, alive: Iterable[str], killed: Mapping[str, int]) -> None:
        self._rng, self._alive, self._left = rng, set(alive), dict(killed)
        self._waiting: set[str] = set()
        self._turn = self._last = ""
        self._changed = threading.Condition()

    def take(self, *_: object) -> None:
        """Wait for a turn, in a thread that takes part."""
        me = threading.current_thread().name
        if me not in self._alive:
            return
        if me in self._left:
            self._left[me] -= 1
            if self._left[me] < 0:
                raise Ended
        with self._changed:
            self._waiting.add(me)
            self._give()
            assert self._changed.wait_for(lambda: self._turn == me, timeout=60)
            self._turn = ""
            self._waiting.discard(me)

    def leave(self) -> None:
        """Take part no more."""
        with self._changed:
            self._alive.discard(threading.current_thread().name)
            self._give()

    def _give(self) -> None:
        if self._turn or not self._alive or not self._waiting >= self._alive:
            return
        # Mostly the same again, so that one may be far ahead of the others.
        if self._last not in self._waiting or self._rng.random() > 0.8:
            self._last = self._rng.choice(sorted(self._waiting))
        self._turn = self._last
        self._changed.notify_all()


class Store:
    """Collections as dictionaries: each request is carried out whole, when it is its thread's turn."""

    name = "store"

    def __init__(self) -> None:
        self.held: dict[str, dict[str, dict[str, Any]]] = {OWN.collection: {}, THEIRS.collection: {}}
        self.turns: Turns | None = None

    def ensure(self, layout: Layout) -> None:
        self._wait()

    def upsert(self, layout: Layout, points: Sequence[StoredPoint]) -> None:
        self._wait()
        self.held[layout.collection].update({point.id: dict(point.payload) for point in points})

    def delete(self, layout: Layout, ids: Sequence[str]) -> None:
        self._wait()
        for each in ids:
            self.held[layout.collection].pop(each, None)

    def scroll(
        self, layout: Layout, where: Where, keys: Sequence[str] = ()
    ) -> Iterator[tuple[str, Mapping[str, Any]]]:
        self._wait()
        found = [(point, dict(payload)) for point, payload in self.held[layout.collection].items()]
        return iter(
            [(point, held) for point, held in found if all(held.get(key) in where[key] for key in where)]
        )

    def collections(self) -> list[str]:
        return [*self.held]

    def search(
        self,
        layout: Layout,
        branches: Sequence[Branch],
        *,
        depth: int,
        where: Where,
        payload: Sequence[str] = (),
    ) -> list[list[Hit]]:
        raise NotImplementedError

    def drop(self, collection: str) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def _wait(self) -> None:
        if self.turns is not None:
            self.turns.take()


class Zeros:
    """No vectors are looked at here."""

    size, fingerprint = 2, "zeros"

    def embed(self, texts: Sequence[str]) -> Any:
        return np.zeros((len(texts), 2), dtype=np.float32)

    def token_ids(self, text: str) -> list[int]:
        return []


def registry(spec: Spec) -> FlowRegistry:
    """Flows in versions that share a text, or do not."""
    flows = []
    for name, version in spec.items():
        if version is not None:
            texts = [f"{name} in version {version}, text {number}" for number in range(2)]
            shared = [f"{name} as ever"] if version else []
            flows.append(
                {"name": name, "description": f"{name}, version {version}", "examples": [*texts, *shared]}
            )
    return FlowRegistry(flows, agent_id="a")


def simulated(seed: int, layout: str, *, syncs: int = 3, kill: bool = False) -> tuple[Store, list[Spec]]:
    """A store after several syncs ran at once over the flows of a first one."""
    rng = random.Random(seed)
    specs: list[Spec] = [{name: rng.choice([None, 0, 1, 2]) for name in NAMES} for _ in range(syncs + 1)]
    store = Store()
    place = Place(store, OWN, THEIRS if layout == "jazzmine" else None, Zeros())
    Sync(place, registry(specs[0]), "a").run()
    workers = [f"sync {number}" for number in range(1, syncs + 1)]
    turns = Turns(rng, workers, {workers[0]: rng.randint(2, 12)} if kill else {})
    store.turns = turns
    failed: list[BaseException] = []

    def work(spec: Spec) -> None:
        try:
            Sync(place, registry(spec), "a", sleep=turns.take).run()
        except Ended:
            pass
        except BaseException as error:  # a thread has nobody else to tell
            failed.append(error)
        finally:
            turns.leave()

    threads = [
        threading.Thread(target=work, args=(spec,), name=name)
        for name, spec in zip(workers, specs[1:], strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store.turns = None
    assert not failed
    return store, specs


def faults(store: Store, specs: Sequence[Spec], layout: str) -> list[str]:
    """What is not as it should be: each flow wholly of one version, and told of in jazzmine's collection."""
    found = []
    beside = {held["flow_name"]: held["description"] for held in store.held[THEIRS.collection].values()}
    for name in NAMES:
        points = {
            point: held for point, held in store.held[OWN.collection].items() if held["flow_name"] == name
        }
        told = [held["description"] for held in points.values() if held["kind"] == MANIFEST]
        if not told and points:
            found.append(f"{name} is without its manifest")
        if not told and all(spec[name] is not None for spec in specs):
            found.append(f"{name} is gone")
        if told:
            version = int(told[0].removeprefix(f"{name}, version "))
            if points.keys() != wanted_points(registry({name: version}), "a", Zeros.fingerprint).keys():
                found.append(f"{name} is not wholly of version {version}")
        if layout == "jazzmine" and beside.get(name) != (told[0] if told else None):
            found.append(f"jazzmine's collection has another {name}")
    return found


def whole(store: Store, spec: Spec) -> bool:
    """Whether what is stored is these flows and nothing else."""
    return store.held[OWN.collection].keys() == wanted_points(registry(spec), "a", Zeros.fingerprint).keys()


# Beyond the first, orders of requests that once left something wrong.
SEEDS = {"examples": [*range(300), 352, 743, 865, 1270, 1332], "jazzmine": [*range(300), 749, 2342]}


@pytest.mark.row("F3")
@pytest.mark.parametrize("layout", list(SEEDS))
def test_three_syncs_at_once_leave_whole_flows(layout: str) -> None:
    for seed in SEEDS[layout]:
        store, specs = simulated(seed, layout)
        assert faults(store, specs, layout) == [], (seed, specs)
        # Not only is each flow of one sync: all are of the same one.
        assert any(whole(store, spec) for spec in specs[1:]), (seed, specs)


@pytest.mark.row("F3")
@pytest.mark.chaos
@pytest.mark.parametrize("layout", list(SEEDS))
def test_what_a_killed_sync_leaves_among_others_the_next_one_mends(layout: str) -> None:
    for seed in range(150):
        store, specs = simulated(seed, layout, syncs=2, kill=True)
        place = Place(store, OWN, THEIRS if layout == "jazzmine" else None, Zeros())
        Sync(place, registry(specs[-1]), "a").run()
        assert faults(store, specs[-1:], layout) == [], (seed, specs)
        wanted = {name for name, version in specs[-1].items() if version is not None}
        assert {held["flow_name"] for held in store.held[OWN.collection].values()} == wanted
        assert Sync(place, registry(specs[-1]), "a").run().changes == 0


@pytest.mark.row("F3")
def test_what_another_sync_brings_in_between_is_seen_and_undone() -> None:
    """Of two that ran at once, the one that ends last leaves its flows whole, and waits before it tries again."""
    store = Store()
    place = Place(store, OWN, None, Zeros())
    Sync(place, registry({"x": 0, "y": 0}), "a").run()
    delete, again = store.delete, iter([registry({"x": 1, "y": 1}), registry({"x": 2, "y": 0})])

    def deleted(*asked: Any) -> None:
        delete(*asked)
        for flows in again:
            assert Sync(place, flows, "a", sleep=[].append).run().changes > 0
            break

    store.delete = deleted  # type: ignore[method-assign]
    waits: list[float] = []
    report = Sync(place, registry({"y": 0}), "a", sleep=waits.append, patience=5.0).run()
    assert (report.deleted, report.skipped) == (["x"], ["y"])
    assert waits
    assert all(0 <= seconds <= 0.5 for seconds in waits)
    assert whole(store, {"y": 0})


@pytest.mark.row("F3")
def test_syncs_that_never_agree_end_and_say_so(caplog: pytest.LogCaptureFixture) -> None:
    store = Store()
    place = Place(store, OWN, None, Zeros())
    upsert = store.upsert

    def undone(layout: Layout, points: Sequence[StoredPoint]) -> None:
        upsert(layout, points)
        store.held[layout.collection].clear()

    store.upsert = undone  # type: ignore[method-assign]
    waits: list[float] = []
    report = Sync(place, registry({"x": 0}), "a", sleep=waits.append, patience=1.0).run()
    assert report.created == ["x"]
    assert len(waits) == 10
    assert sum(waits) <= 1.0
    assert "changed by another sync; sync again" in caplog.text


@pytest.mark.row("F3", "F5")
def test_a_vector_of_another_model_is_made_anew_though_its_sync_never_ended() -> None:
    store = Store()
    place, newer = (Place(store, OWN, THEIRS, model) for model in (Zeros(), Newer()))
    flows = registry({"x": 0, "y": 0})
    Sync(place, flows, "a").run()
    upserts: list[str] = []
    upsert = store.upsert

    def upserted(layout: Layout, points: Sequence[StoredPoint]) -> None:
        upserts.append(layout.collection)
        if len(upserts) == 3:  # texts, jazzmine's points; then it would be the manifests
            raise Ended
        upsert(layout, points)

    store.upsert = upserted  # type: ignore[method-assign]
    with pytest.raises(Ended):
        Sync(newer, flows, "a").run()
    assert upserts == ["own", "theirs", "own"]
    upserts.clear()
    upserts.extend(["done"] * 3)
    Sync(place, flows, "a").run()
    assert "theirs" in upserts
    upserts[:] = ["done"] * 3
    assert Sync(place, flows, "a").run().changes == 0


class Newer(Zeros):
    """Another model."""

    fingerprint = "ones"
