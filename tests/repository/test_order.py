"""The order in which the workers of `make test` take the files."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from both_ends import BothEnds, place

FILES = [
    "tests/lm/test_b.py",
    "tests/models/test_a.py",
    "tests/optimize/test_b.py",
    "tests/optimize/test_a.py",
]


class Worker:
    """A worker that notes which tests it is sent."""

    def __init__(self) -> None:
        self.sent: list[int] = []

    def send_runtest_some(self, indexes: list[int]) -> None:
        self.sent += indexes


def test_what_takes_long_is_at_the_ends_and_a_folder_stays_together() -> None:
    assert sorted(FILES, key=place) == [FILES[3], FILES[2], FILES[1], FILES[0]]


def test_two_workers_take_files_from_the_two_ends() -> None:
    workers: list[Any] = [Worker(), Worker()]
    order: Any = BothEnds.__new__(BothEnds)
    order.workqueue = OrderedDict((name, {f"{name}::test": False}) for name in FILES)
    order.assigned_work = {worker: {} for worker in workers}
    order.registered_collections = {worker: [f"{name}::test" for name in FILES] for worker in workers}
    for worker in (workers[0], workers[1], workers[0], workers[1]):
        order._assign_work_unit(worker)
    assert [worker.sent for worker in workers] == [[3, 2], [0, 1]]
    assert not order.workqueue
