"""The order of the sources, their gates and their measured trust: what an artefact says of each stage."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from jazzmine_dspy.models._base import Value
from jazzmine_dspy.models.decision import SourceKind, Stage
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.models.turn import Load

Shape = Literal["staged", "fused"]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
PolicyName = Literal["shipped", "lm", "floor", "head"]

FLOOR: dict[Stage, tuple[SourceKind, ...]] = {
    "enhance": ("rule", "floor"), "select": ("rule", "floor"), "understand": ("rule", "floor"),
}  # fmt: skip
_LM: dict[Stage, tuple[SourceKind, ...]] = dict.fromkeys(FLOOR, ("lm", "floor"))


def _orders() -> dict[Stage, tuple[SourceKind, ...]]:
    return {
        "enhance": ("rule", "lm", "floor"),
        "select": ("rule", "lm", "floor"),
        "understand": ("rule", "lm", "floor"),
    }


def _scores() -> dict[Load, float]:
    return {"idle": 0.12, "busy": 1.0}


class Policy(Value):
    """Which sources answer, in which order.

    Args:
        shape: ``staged`` asks the language model per stage, ``fused`` once for all.
        orders: Kinds of sources per stage, each registered; the floor stands last. A source whose part is not bound
            declines, and the decision is degraded: a head stands in an order only where one was trained.
        gates: Confidence that a source needs, per stage and kind; 0 where none is given.
        trust: Share of dev turns that a source got right, per stage and kind: the confidence of sources that
            know none of their own.
        top_k: Flows offered to the language model, 1 to 8.
        history_shown: Earlier messages shown to the language model.
        max_commands: Commands that one answer of the language model may hold.
        floor_score: Recall score that the best candidate needs for the floor to choose it, idle and busy.
        clarify: Margin of the two best flows under which a source of selection asks which of them is meant, instead of
            choosing: of the head's probabilities, or of the floor's recall scores as a share of the better one. 0, as
            where none is given, never asks.
        recall: How the index ranks, as fitted by a run: numbers by the names of recall's settings. Empty where they
            are the defaults.
    """

    shape: Shape = "fused"
    orders: dict[Stage, tuple[SourceKind, ...]] = Field(default_factory=_orders)
    gates: dict[Stage, dict[SourceKind, float]] = Field(default_factory=dict)
    trust: dict[Stage, dict[SourceKind, Share]] = Field(default_factory=dict)
    top_k: int = Field(default=4, ge=1, le=8)
    history_shown: int = Field(default=5, ge=0, le=10)
    max_commands: int = Field(default=6, ge=1, le=16)
    floor_score: dict[Load, float] = Field(default_factory=_scores)
    clarify: dict[SourceKind, float] = Field(default_factory=dict)
    recall: dict[str, float] = Field(default_factory=dict)

    def named(self, name: PolicyName) -> Policy:
        """This policy, or one with another order: ``lm`` and ``head`` force that source, ``floor`` asks no model.

        Raises:
            InputError: no policy has that name.
        """
        if name == "shipped":
            return self
        if name == "floor":
            return self.model_copy(update={"orders": FLOOR})
        if name == "lm":
            return self.model_copy(update={"orders": _LM, "gates": {}})
        if name == "head":
            return self.model_copy(update={"orders": {**FLOOR, "select": ("head", "floor")}, "gates": {}})
        raise InputError(f"No policy is named {name!r}", remedy="Use shipped, lm, head or floor.")
