"""The policy: which deciders decide a turn, up to which confidence, and what their prompts show."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field

from jazzmine_dspy.models.base import Value, frozen_dict
from jazzmine_dspy.models.decision import EscalationRule, SourceKind, Stage
from jazzmine_dspy.models.errors import ArtifactError, InputError
from jazzmine_dspy.models.history import MAX_WINDOW, USER_TURNS
from jazzmine_dspy.models.turn import Load
from jazzmine_dspy.program.turn_confidence import TurnConfidence
from jazzmine_dspy.signatures.contract import ANSWERED, CONTRACTS

Shape = Literal["staged", "fused"]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
PolicyName = Literal["shipped", "local", "lm", "cascade", "fallback"]
Positive = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
Gate = Positive | None
Deciders = tuple[tuple[SourceKind, Gate], ...]
Frozen = AfterValidator(frozen_dict)

NEVER_MISS = 0.45
"""Default margin of flows that must not be missed, chosen on the messages of tests/program/test_never_miss.py."""


def _fields(names: tuple[str, ...]) -> tuple[str, ...]:
    if strange := sorted(set(names) - set(ANSWERED)):
        raise ValueError(f"there is no field {strange[0]!r} in an answer: name some of {', '.join(ANSWERED)}")
    return tuple(field for field in ANSWERED if field in names)


def _in_order(deciders: Deciders) -> Deciders:
    names = [name for name, _ in deciders]
    if not names or len(set(names)) != len(names):
        raise ValueError("name one decider at least, and each once")
    for name, gate in deciders[:-1]:
        if gate is None and name != "local":
            raise ValueError(f"the decider {name!r} needs a gate, since another decider follows it")
    return deciders


def _for_each_load(scores: dict[Load, float]) -> dict[Load, float]:
    if missing := sorted({"idle", "busy"} - set(scores)):
        raise ValueError(f"there is no score for {missing[0]!r}: name one for 'idle' and one for 'busy'")
    return scores


class Policy(Value):
    """Which deciders decide a turn, in which order.

    Args:
        shape: ``staged`` asks the language model per stage, ``fused`` once for all.
        deciders: Names of deciders, each with its gate: the confidence of the whole turn under which the next one is
            asked. Built in are ``local``, ``lm`` and ``fallback``. The gate of the last one is not used; None is the
            package's own gate for ``local``, and nothing else.
        enhance: Who enhances: the ``decider`` that decides the turn, or the ``lm`` for every turn.
        turn_confidence: How likely the local decider's commands are right, as fitted by a run. Where none was fitted,
            what comes with the package. JSON holds it only where it is there.
        trust: Share of dev turns that a decider got right, by its name: its confidence where it knows none of its own.
        top_k: Flows offered to the language model, 1 to 8.
        history_window: Turns of the user, 1 to 1,000, that the prompts of ``enhance`` and ``fused`` show with the
            replies between them, from the last change of topic on. Each message before them is a line, but not those of
            earlier topics if the turn has ``episode_summaries``.
        history_shown: Messages of the history that the prompt of ``understand`` shows.
        max_commands: Commands that one answer of the language model may hold.
        fallback_score: Recall score that the best candidate needs to be chosen by recall alone, idle and busy.
        clarify: Margin of the two best flows under which the local decider asks which of them is meant, instead of
            choosing: ``local`` of probabilities, ``fallback`` of recall scores as a share of the better one. 0, as
            where none is given, never asks.
        never_miss: Least probability to ask about a flow marked ``never_miss`` that was not chosen, fitted by a run.
            JSON has it only if it is not the default.
        unasked: Fields that no language model is asked for, since nobody labelled them: prompts, demonstrations and
            schemas leave them out, and decisions hold what the local decider reads.
        escalation: From which sentiment on a decision escalates. JSON holds it only where it is not the default.
        head_weight: Weight of a head of selection beside the estimate that needs no label, as set by a run. 1, the
            default, leaves the estimate to flows that the head has not learnt. JSON holds it only where it is not 1.
        busy_head_weight: The same for whether a message starts another flow while one runs, as set by a run: 0, the
            default, leaves it to the estimate. JSON holds it only where it is not 0.
        recall: How the index ranks, as fitted by a run: numbers by the names of recall's settings. Empty where they
            are the defaults.
    """

    model_config = ConfigDict(validate_default=True)

    shape: Shape = "fused"
    deciders: Annotated[Deciders, AfterValidator(_in_order)] = (("local", None), ("lm", None))
    enhance: Literal["decider", "lm"] = "decider"
    turn_confidence: TurnConfidence | None = Field(default=None, exclude_if=partial(operator.is_, None))
    trust: Annotated[dict[SourceKind, Share], Frozen] = Field(default={})
    top_k: int = Field(default=8, ge=1, le=8)
    # Left out of the JSON form where it is the default: programs from before it keep their fingerprints.
    history_window: int = Field(
        default=USER_TURNS, ge=1, le=MAX_WINDOW, exclude_if=partial(operator.eq, USER_TURNS)
    )
    history_shown: int = Field(default=5, ge=0)
    max_commands: int = Field(default=6, ge=1, le=16)
    fallback_score: Annotated[dict[Load, float], AfterValidator(_for_each_load), Frozen] = Field(
        default={"idle": 0.12, "busy": 1.0}
    )
    clarify: Annotated[dict[SourceKind, Positive], Frozen] = Field(default={})
    never_miss: Share = Field(default=NEVER_MISS, exclude_if=partial(operator.eq, NEVER_MISS))
    unasked: Annotated[tuple[str, ...], AfterValidator(_fields)] = ()
    escalation: EscalationRule = Field(
        default=EscalationRule(), exclude_if=partial(operator.eq, EscalationRule())
    )
    head_weight: Share = Field(default=1.0, exclude_if=partial(operator.eq, 1.0))
    busy_head_weight: Share = Field(default=0.0, exclude_if=partial(operator.eq, 0.0))
    recall: Annotated[dict[str, float], Frozen] = Field(default={})

    @property
    def names(self) -> tuple[str, ...]:
        """The deciders, in their order."""
        return tuple(name for name, _ in self.deciders)

    @classmethod
    def stored(cls, data: Any) -> Self:
        """The policy of a stored program.

        Raises:
            ArtifactError: it names a wording of the prompts, of which there is one.
        """
        if isinstance(data, Mapping) and "wording" in data:
            raise ArtifactError(
                "The program was compiled for a wording of the prompts that is gone",
                where="policy, field wording",
                remedy="Compile it again: jazzmine-dspy optimize RECIPE.",
            )
        return cls.model_validate(data)

    def asks(self, stage: Stage) -> bool:
        """Whether a language model is asked for anything of a stage, where its order names one."""
        return any(field not in self.unasked for field in CONTRACTS[stage].signature.output_fields)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:  # noqa: ARG002
        """A copy with other values. They are checked, unlike Pydantic's own; what is frozen is shared, however deep.

        Raises:
            pydantic.ValidationError: a value is out of range, or its name is unknown.
        """
        return type(self).model_validate({**dict(self), **(update or {})})

    def named(self, name: PolicyName) -> Policy:
        """This policy, or another order of deciders.

        Args:
            name: ``shipped``: this one. ``local``, ``lm`` or ``fallback`` (rules and recall): that decider alone.
                ``cascade``: the local decider with its gate, then the language model; this one where a decider
                stands before the language model already.

        Raises:
            InputError: no policy has that name.

        Example:
            >>> Policy(deciders=(("local", 0.8),)).named("cascade").deciders
            (('local', 0.8), ('lm', None))
        """
        if name == "shipped" or (name == "cascade" and "lm" in self.names[1:]):
            return self
        deciders: Deciders = ((name, None),)
        if name == "cascade":
            deciders = (("local", dict(self.deciders).get("local")), ("lm", None))
        elif name not in ("local", "lm", "fallback"):
            remedy = "Use shipped, local, lm, cascade or fallback."
            raise InputError(f"No policy is named {name!r}", remedy=remedy)
        return self.model_copy(update={"deciders": deciders, "enhance": "decider"})
