"""The lines of the table that a large language model has answered, this project's and those of other systems."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from jazzmine_dspy.eval.intervals import summarise
from jazzmine_dspy.eval.significance import paired_difference
from jazzmine_dspy.lm.replay import Recording
from jazzmine_dspy.models.awaiting import Awaiting
from jazzmine_dspy.models.errors import JazzmineError
from understanding.figures import Figure, by_part, figure
from understanding.ground import Ground
from understanding.recorded import LINES, Answered, Make, answered, asked_of

SECTION = "large LM, nothing compiled (recorded)"
OTHERS = "other systems, the same turns and the same kind of large LM (recorded)"
TITLES = {
    "others-turns": "turns of registries by other writers right",
    "test-turns": "shipped test part, `commands_exact`",
}
TARGETS = {"others-turns": 0.95, "test-turns": 0.96}
SYSTEMS = {"ours": "this project", "soni": "soni 0.3.0", "plain": "plain DSPy, ten lines"}


class Sources:
    """Where each system's answers are from.

    Args:
        recordings: Folder of recordings; each system's is ``understanding-SYSTEM``.
        given: Other language models, by system, such as ``deferred:FOLDER``.
        makes: How each system is made.
    """

    def __init__(self, recordings: Path, given: Mapping[str, str], makes: Mapping[str, Make]) -> None:
        self._recordings, self._given, self._makes = recordings, given, makes
        self._found: dict[str, Answered | str] = {}

    def lm(self, system: str) -> str:
        """The name of the language model that answers for a system."""
        return self._given.get(system) or f"recording:{self._recordings / f'understanding-{system}'}"

    def answered(self, line: str, ground: Ground) -> Answered | str:
        """What was answered, or in a few words why it was not."""
        if line not in self._found:
            self._found[line] = self._ask(line, ground)
        return self._found[line]

    def _ask(self, line: str, ground: Ground) -> Answered | str:
        system = LINES[line].system
        lm = self.lm(system)
        folder = Path(lm.partition(":")[2])
        if lm.startswith("recording:") and not folder.is_dir():
            return "not recorded"
        try:
            return answered(LINES[line], ground, lm, self._makes[system])
        except Awaiting as awaiting:
            what = "not recorded, or stale" if lm.startswith("recording:") else "awaited"
            return f"{what}: {len(awaiting.keys)} requests have no answer"
        except (JazzmineError, RuntimeError) as error:
            return f"not measured: {error}"

    def told(self, system: str) -> str:
        """Kind of model and date of a recording, or where else the answers are from."""
        lm = self.lm(system)
        if not lm.startswith("recording:"):
            return lm.partition(":")[0]
        said = Recording.read(lm.partition(":")[2])
        return f"{said.kind}, {said.date}"


def figures(sources: Sources, ground: Ground) -> Iterator[Figure]:
    """This project's lines."""
    for line in TITLES:
        found = sources.answered(line, ground)
        if isinstance(found, str):
            yield Figure(SECTION, TITLES[line], note=found, target=TARGETS[line])
            continue
        note = sources.told("ours") + found.note
        rows, clusters = found.rows()
        opening = [found.opening[key] for key in found.right]
        yield from by_part(
            SECTION, TITLES[line], rows, clusters, opening, "right", target=TARGETS[line], note=note
        )
        yield Figure(SECTION, "· prompt tokens a turn", found.tokens, n=len(found.right), unit="tokens")


def compared(sources: Sources, ground: Ground) -> Iterator[Figure]:
    """Each system on the turns that all are compared on, and by how much this project is ahead."""
    held = {system: sources.answered(f"compared-{system}", ground) for system in SYSTEMS}
    for system, found in held.items():
        if isinstance(found, str):
            yield Figure(OTHERS, SYSTEMS[system], note=found)
            continue
        rows, clusters = found.rows()
        note = f"{found.tokens:,.0f} prompt tokens a turn; {sources.told(system)}{found.note}"
        yield figure(OTHERS, SYSTEMS[system], summarise(rows, clusters).get("right"), note=note)
    ours = held["ours"]
    for system, other in held.items():
        if system == "ours":
            continue
        title = f"this project ahead of {SYSTEMS[system]}, paired"
        if isinstance(ours, str) or isinstance(other, str):
            yield Figure(OTHERS, title, unit="points", note="not to be compared", target=0.0)
            continue
        yield ahead(ours, other, title)


def ahead(ours: Answered, other: Answered, title: str) -> Figure:
    """The difference on the same turns."""
    keys = [key for key in ours.right if key in other.right]
    clusters = [ours.clusters[key] for key in keys]
    found = paired_difference(
        [float(ours.right[key]) for key in keys],
        [float(other.right[key]) for key in keys],
        clusters,
        largest=1.0,
    )
    return Figure(
        OTHERS, title, found.value, found.low, found.high, found.n, len(set(clusters)), target=0.0, unit="points"
    )  # fmt: skip


def ask(system: str, ground: Ground, lm: str, make: Make) -> tuple[int, int]:
    """Ask about every turn that a system has a line for; how many answers are awaited, and for how many lines.

    Raises:
        Awaiting: the requests could not be written.
    """
    return asked_of(_lines(system), ground, lm, make)


def _lines(system: str) -> Iterable[str]:
    return [name for name, line in LINES.items() if line.system == system]
