"""The order in which two workers run the files: each starts at an end of the list, and they meet in the middle.

So the files of a folder are in one worker, which imports their libraries and builds their fixtures once; and what takes
long comes first, so that no worker waits for the other at the end. pytest-xdist's own order, files of many tests first,
leaves runs that take half a minute each for last.
"""

from __future__ import annotations

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

FIRST = ("optimize", "checks", "extension", "cli", "eval", "artifacts", "repository", "docs", "examples")
LAST = ("integrations", "faults", "runtime", "memory", "lm")


def place(path: str) -> tuple[int, str]:
    """Where a file stands in the list; what is named nowhere is in the middle."""
    folder = path.removeprefix("tests/").partition("/")[0]
    if folder in FIRST:
        return FIRST.index(folder) - len(FIRST), path
    return LAST.index(folder) + 1 if folder in LAST else 0, path


class BothEnds(LoadFileScheduling):
    """Every second worker takes the last file, the others take the first."""

    def _assign_work_unit(self, node: WorkerController) -> None:
        at_the_end = self.nodes.index(node) % 2 == 1
        chosen = max(self.workqueue, key=place) if at_the_end else min(self.workqueue, key=place)
        self.workqueue.move_to_end(chosen, last=False)
        super()._assign_work_unit(node)
