"""TurnProgram: message enhancement, flow selection and understanding as one DSPy module."""

from __future__ import annotations

import asyncio
import os
import time
import warnings
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any, Self, Unpack

import dspy

from jazzmine_dspy.models import STAGES, FlowRegistry, Turn, TurnDecision
from jazzmine_dspy.models.base import forked
from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.program.batch import WORKERS, all_at_once, at_once, chunks, embed_ahead
from jazzmine_dspy.program.bindings import Bindings, Ports, build_index, make_ready_soon
from jazzmine_dspy.program.deadline import DEADLINE, Deadline
from jazzmine_dspy.program.decide import adecide, decide, prediction_of, read
from jazzmine_dspy.program.decider import check_deciders
from jazzmine_dspy.program.decision_cache import MAX_ENTRIES, TTL, DecisionCache
from jazzmine_dspy.program.module import DecidingModule
from jazzmine_dspy.program.policy import Policy, Shape
from jazzmine_dspy.program.prompts import (
    CONTRACT,
    check_contract,
    contract_of,
    program_fingerprint,
    put,
    states_of,
)
from jazzmine_dspy.program.state import TurnState, as_turn
from jazzmine_dspy.program.trainable import TrainableProgram
from jazzmine_dspy.signatures.contract import CONTRACTS, asking, with_overrides

_FLOWS_SHOWN = 6


class TurnProgram(DecidingModule):
    """Decides one turn. Pure: no store, no clock, no global; what it asks of the world is bound with :meth:`bind`.

    A bare text and an ``NLUContext`` without a date are dated today; a ``Turn`` is decided as it is.

    Args:
        registry: The flows to choose from.
        policy: Shape, and the deciders in their order.
        signatures: Folder with a project's own wording (``NAME.toml``), or None.

    Raises:
        InputError: the policy names a decider that nobody registered.

    Example:
        >>> flows = FlowRegistry([{"name": "track_order", "description": "Tell where an order is."}])
        >>> program = TurnProgram(flows).with_policy("fallback")
        >>> program.decide(text="hello").commands
        [ChitChat(type='chitchat')]
    """

    def __init__(
        self,
        registry: FlowRegistry | None = None,
        *,
        policy: Policy | None = None,
        signatures: Path | None = None,
    ) -> None:
        super().__init__()
        self.enhance = dspy.Predict(with_overrides("enhance", signatures))
        self.select = dspy.Predict(with_overrides("select", signatures))
        self.understand = dspy.Predict(with_overrides("understand", signatures))
        self.fused = dspy.Predict(with_overrides("fused", signatures))
        self.registry = registry if registry is not None else FlowRegistry()
        self._bindings = Bindings()
        self.policy = policy or Policy()

    @property
    def bindings(self) -> Bindings:
        """What the program is bound to.

        Raises:
            InputError: this process was forked after the program was loaded.
        """
        if os.getpid() != self._bindings.pid:
            raise forked(self._bindings.pid, "the program")
        return self._bindings

    @property
    def policy(self) -> Policy:
        """Shape, and the deciders in their order.

        Raises:
            InputError: on setting one that names a decider that nobody registered.
        """
        return self._policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        check_deciders(policy, self.bindings.deciders)
        self._policy = policy
        for name in CONTRACTS:
            # A copy shares its signatures: they are replaced, never changed.
            predictor = self.predictor(name)
            predictor.signature = asking(name, predictor.signature, policy.unasked)

    @property
    def shape(self) -> Shape:
        """``staged`` or ``fused``."""
        return self.policy.shape

    def active_predictors(self) -> tuple[str, ...]:
        """Names of the predictors that this shape asks, where the language model is one of the deciders."""
        stages: tuple[str, ...] = tuple(stage for stage in STAGES if self.policy.asks(stage))
        asks = "lm" in self.policy.names
        if self.shape == "fused" and asks and stages:
            stages = ("fused",)
        if self.policy.enhance == "lm" and "enhance" not in stages:
            return (*(stages if asks else ()), "enhance")
        return stages if asks else ()

    def bind(
        self, *, registry: FlowRegistry | None = None, warm: bool = True, **ports: Unpack[Ports]
    ) -> Self:
        """Bind flows and ports. Returns the program itself.

        An index of other flows is let go when flows are bound: it would never find the new ones.

        Args:
            registry: The flows to choose from.
            warm: Whether an index that is bound is built at once. Else the first turn builds it, and is degraded if
                that outlasts its deadline.
            ports: ``recall``, ``embedder``, ``lm``, ``clock``, ``cache``, ``heads`` (stages to the models of the local
                decider) and ``deciders`` (names to deciders). Those that are not named stay; None takes one away.

        Raises:
            InputError: there is no such port or stage.
        """
        if registry is not None:
            self.registry = registry
            indexed = getattr(self.bindings.recall, "registry", registry)
            if "recall" not in ports and indexed.checksum != registry.checksum:
                ports["recall"] = None
        if ports:
            self._bindings = self.bindings.but(**ports)
        if ports.get("lm") is not None and self.active_predictors():
            make_ready_soon(ports["lm"])
        if warm and ports.get("recall") is not None:
            build_index(ports["recall"])
        return self

    def cached(
        self, *, ttl: float = TTL, max_entries: int = MAX_ENTRIES, clock: Callable[[], float] = time.monotonic
    ) -> Self:
        """A copy that decides equal turns once within ``ttl`` seconds; see :class:`DecisionCache`.

        The cache is bound as ``copy.bindings.cache``, whose ``stats()`` tell hits and ages.
        """
        copy: Self = self.deepcopy()
        return copy.bind(cache=DecisionCache(ttl=ttl, max_entries=max_entries, clock=clock))

    def trainable(self) -> TrainableProgram:
        """What DSPy's optimizers are given: a module of the predictors that the shape asks, with plain values.

        It is a copy; :meth:`with_compiled` takes it back. It asks the language model for every stage, whatever the
        policy says. Warns where the policy asks none: new prompts change nothing then.

        Example:
            >>> program = TurnProgram(FlowRegistry([{"name": "hours", "description": "Tell when the shop is open."}]))
            >>> [name for name, _ in program.trainable().named_predictors()]
            ['fused']
        """
        self._warn_if_unasked()
        return TrainableProgram(self.with_policy("lm"))

    def with_compiled(self, compiled: TrainableProgram | TurnProgram) -> Self:
        """A copy with the prompts of a compiled one: instructions, descriptions of fields, and demonstrations.

        Args:
            compiled: What an optimizer made of :meth:`trainable`, or of a program.

        Raises:
            InputError: it is neither, or its prompts are of the other shape.

        Example:
            >>> program = TurnProgram(FlowRegistry([{"name": "hours", "description": "Tell when the shop is open."}]))
            >>> compiled = program.trainable()
            >>> compiled.fused.signature = compiled.fused.signature.with_instructions("Say what the user wants.")
            >>> program.with_compiled(compiled).fused.signature.instructions
            'Say what the user wants.'
        """
        if not isinstance(compiled, TrainableProgram | TurnProgram):
            raise InputError(
                f"A {type(compiled).__name__} has no prompts of a program",
                remedy="Compile program.trainable(), and pass what the optimizer returns.",
            )
        mine = self.with_policy("lm").active_predictors()
        if isinstance(compiled, TurnProgram):
            compiled = compiled.with_policy("lm")
        theirs = compiled.active_predictors()
        if mine != theirs:
            raise InputError(
                f"The compiled prompts are {', '.join(theirs)}, and this program asks {', '.join(mine)}",
                remedy="Compile program.trainable() of this program, or set policy.shape before.",
            )
        for name in mine:
            # A state names fields by their places: the words of one would come to stand at another.
            theirs, own = (tuple(each.predictor(name).signature.fields) for each in (compiled, self))
            if theirs != own:
                raise InputError(
                    f"The compiled {name!r} has the fields {', '.join(theirs)}, and this program's {', '.join(own)}",
                    remedy="Compile program.trainable() of this program, or set policy.unasked before.",
                )
        copy = self.with_policy(self.policy)
        put(states_of(compiled), copy)
        return copy

    def named_predictors(self) -> list[tuple[str, dspy.Predict]]:
        """Those that are asked, for DSPy's optimizers; a warning where none is."""
        self._warn_if_unasked()
        return list(super().named_predictors())

    def __repr__(self) -> str:
        flows, policy, bound = list(self.registry), self.policy, self.bindings
        gates = [name if gate is None else f"{name} from {gate:.2f}" for name, gate in policy.deciders]
        asked = [
            f"{name} ({len(self.predictor(name).demos)} demonstrations)" for name in self.active_predictors()
        ]
        parts = {
            "lm": bound.lm and bound.lm.model,
            "recall": bound.recall and type(bound.recall).__name__,
            "embedder": bound.embedder and type(bound.embedder).__name__,
            "heads": ", ".join(bound.heads),
            "deciders": ", ".join(bound.deciders),
            "cache": bound.cache and "decisions",
        }
        names = f"{', '.join(flows[:_FLOWS_SHOWN])}{', …' if len(flows) > _FLOWS_SHOWN else ''}"
        return "\n".join(
            [
                f"{type(self).__name__} over {len(flows)} flows: {names or 'none'}",
                f"  policy: {', then '.join(gates)}; {policy.shape}",
                f"  asks: {', '.join(asked) or 'no language model'}",
                f"  bound: {'; '.join(f'{name} {part}' for name, part in parts.items() if part) or 'nothing'}",
            ]
        )

    def _warn_if_unasked(self) -> None:
        if not self.active_predictors():
            warnings.warn(
                "The program's policy calls no language model, so other prompts do not change its decisions: "
                "use program.with_policy('lm'), or a policy whose deciders name 'lm'",
                UserWarning,
                stacklevel=3,
            )

    def dump_state(self, json_mode: bool = True) -> dict[str, Any]:
        """DSPy's state of the predictors; beside it the policy, and what the predictors were compiled for."""
        state: dict[str, Any] = {}
        for name, predictor in self.all_parameters():
            state[name] = predictor.dump_state(json_mode=json_mode)
        return {**state, "policy": self.policy.model_dump(mode="json"), CONTRACT: contract_of(CONTRACTS)}

    def load_state(self, state: dict[str, Any], **options: Any) -> None:
        """The inverse of :meth:`dump_state`; a state without a policy leaves the program's own.

        The state of a :meth:`trainable` module is taken as :meth:`with_compiled` takes the module.

        Raises:
            ArtifactError: the state was compiled for other signatures, or is a trainable module's of another shape.
        """
        if "policy" not in state and any(name not in state for name in CONTRACTS):
            names = self.with_policy("lm").active_predictors()
            check_contract(state, {name: self.predictor(name).signature for name in names}, expected=True)
            # A trial first: a damaged state changes nothing.
            for program in (self.deepcopy(), self):
                put({name: state[name] for name in names}, program)
            return
        policy = Policy.stored(state["policy"]) if "policy" in state else self.policy
        mine = {name: asking(name, self.predictor(name).signature, policy.unasked) for name in CONTRACTS}
        check_contract(state, mine, expected=False)
        # First: which fields a predictor asks for is the policy's, and a saved state names fields by their places.
        self.policy = policy
        for name, predictor in self.all_parameters():
            predictor.load_state(state[name], **options)

    @property
    def fingerprint(self) -> str:
        """SHA-256 over all of the program that may change a decision, bound parts included."""
        return program_fingerprint(self)

    def forward(
        self,
        turn: Turn | str | None = None,
        exclude: Sequence[str] = (),
        deadline: float | None = DEADLINE,
        *,
        text: str | None = None,
    ) -> dspy.Prediction:
        """Decide a turn.

        Args:
            turn: The turn, or the user's text.
            exclude: Conversations whose examples recall must not use, while fitting.
            deadline: Seconds, all attempts at a call included; what is not answered by then is decided without. 10
                by default, None for no limit.
            text: The user's text, where there is no turn.

        Returns:
            A prediction with ``decision``, a :class:`TurnDecision`, and as plain values ``flows`` and ``commands``.

        Raises:
            InputError: no turn and no text, an empty text, or one over the limit.
        """
        return prediction_of(decide(self, as_turn(turn, text), exclude, deadline))

    async def aforward(
        self,
        turn: Turn | str | None = None,
        exclude: Sequence[str] = (),
        deadline: float | None = DEADLINE,
        *,
        text: str | None = None,
    ) -> dspy.Prediction:
        """The same without blocking the loop."""
        return prediction_of(await adecide(self, as_turn(turn, text), exclude, deadline))

    def decide_many(
        self,
        turns: Sequence[Turn],
        *,
        excludes: Sequence[Collection[str]] | None = None,
        workers: int = WORKERS,
        deadline: float | None = DEADLINE,
    ) -> list[TurnDecision]:
        """Decide many turns, each as :meth:`decide` would; their texts are embedded together first.

        Args:
            turns: Any number of them.
            excludes: For each turn the conversations whose examples recall must not use, while fitting.
            workers: Turns that are decided at a time.
            deadline: Seconds for each turn, None for no limit.

        Returns:
            The decisions in the order of the turns. A part that fails degrades the turns that needed it, no others.

        Raises:
            InputError: an item is no turn, or a number makes no sense; nothing was decided then.

        Example:
            >>> flows = FlowRegistry([{"name": "track_order", "description": "Tell where an order is."}])
            >>> program = TurnProgram(flows).with_policy("fallback")
            >>> [each.commands[0].type for each in program.decide_many([Turn(text="hello"), Turn(text="human")])]
            ['chitchat', 'handoff']
        """
        decided: list[TurnDecision] = []

        def one(item: tuple[Turn, Sequence[str]]) -> TurnDecision:
            return self.decide(item[0], exclude=item[1], deadline=deadline)

        for some in chunks(turns, excludes, workers):
            embed_ahead(self, [turn for turn, _ in some])
            decided += at_once(one, some, workers)
        return decided

    async def adecide_many(
        self,
        turns: Sequence[Turn],
        *,
        excludes: Sequence[Collection[str]] | None = None,
        workers: int = WORKERS,
        deadline: float | None = DEADLINE,
    ) -> list[TurnDecision]:
        """The same without blocking the loop; cancelling it cancels what is under way."""
        decided: list[TurnDecision] = []
        parts = chunks(turns, excludes, workers)
        free = asyncio.Semaphore(workers)

        async def one(turn: Turn, exclude: Sequence[str]) -> TurnDecision:
            async with free:
                return await self.adecide(turn, exclude=exclude, deadline=deadline)

        for some in parts:
            await asyncio.to_thread(embed_ahead, self, [turn for turn, _ in some])
            decided += await all_at_once(one(turn, exclude) for turn, exclude in some)
        return decided

    def read(self, turn: Turn, exclude: Sequence[str] = ()) -> TurnState:
        """The state of a turn before it is decided, with no deadline: what deciders and training read."""
        return read(self, turn, exclude, Deadline(None, self.bindings.clock))
