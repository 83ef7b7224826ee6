"""What another way of choosing a flow is: it learns from rows, and stands behind ``decide`` as a program does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from jazzmine_dspy.models.decision import Enhancement, Selection, TurnDecision
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.models.turn import Turn

Labelled = tuple[str, str | None]


class Training(NamedTuple):
    """What every system learns from: texts with one flow each, or with none (None), and the flows.

    ``share`` of the messages want none, as far as the dataset says so.
    """

    rows: Sequence[Labelled]
    flows: FlowRegistry
    seed: int
    share: float | None = None


class Unfit(Exception):  # noqa: N818
    """A system can't be trained on these rows so that its figures would be fair; the message says why."""


class Skipped(NamedTuple):
    """A system that is not measured, with the reason, which the table prints."""

    name: str
    reason: str


class Peer:
    """Decides a turn by its text alone."""

    name: str
    seconds: float = 0.0
    """What its training took."""

    def choose(self, text: str) -> tuple[str | None, float, list[tuple[str, float]]]:
        """The flow or None, how sure, and the candidates."""
        raise NotImplementedError

    def forget(self) -> None:
        """Let remembered answers go, so that the next ones take their real time."""

    def decide(self, turn: Turn, /, *, exclude: tuple[str, ...] = ()) -> TurnDecision:  # noqa: ARG002
        """As a program decides; there is nothing to exclude, since no test row is known."""
        flow, sure, candidates = self.choose(turn.text)
        selection = Selection(
            flows=[] if flow is None else [flow],
            candidates=candidates,
            confidence=min(1.0, max(0.0, sure)),
        )
        return TurnDecision(enhancement=Enhancement(enhanced_query=turn.text), selection=selection)
