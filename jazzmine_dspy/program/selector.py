"""FlowSelector: flow selection on its own, by the language model or the local decider."""

from __future__ import annotations

import asyncio
import functools
import math
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from jazzmine_dspy.lm.resolve import as_lm
from jazzmine_dspy.models import Degraded, Flow, FlowRegistry, LMCall, Selection, StageRecord, Turn
from jazzmine_dspy.models.base import log
from jazzmine_dspy.models.errors import InputError, format_error
from jazzmine_dspy.models.ports import SUMMARY_WEIGHT
from jazzmine_dspy.program.deadline import Deadline, in_thread
from jazzmine_dspy.program.decider import record as made_record
from jazzmine_dspy.program.lm.decider import LMDecider
from jazzmine_dspy.program.local import LocalDecider
from jazzmine_dspy.program.local.starting import never_missed
from jazzmine_dspy.program.local.understanding import read_closed
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.ports import Recalled, RecallPort
from jazzmine_dspy.program.recall_query import recall_query, recent
from jazzmine_dspy.program.state import TurnState, allowed_flows, as_turn
from jazzmine_dspy.program.turn import TurnProgram
from jazzmine_dspy.signatures.answers import ALIASES

_Candidate = tuple[Recalled | None, dict[str, Any]]
"""What a recall port gave, if one did, and its form as a mapping."""


@dataclass
class FlowSelectionResult:
    """What was selected, and what it was selected from.

    Args:
        chosen_flows: Flows of the registry, in the order of the wishes; empty where none fits.
        chosen_prompts, combined_prompt: Their prompts without examples, and all of them joined.
        unresolved_ids: Ids of candidates that memory holds and the registry does not.
        invented_ids: What the language model answered that it was not offered.
        candidates: What was chosen from, as mappings, best first.
        mode: single, sequential (one after the other, in their order) or parallel.
        clarify: Names of two flows that are too close to choose between: ask which is meant. Nothing is chosen then.
        scores: Score of each known candidate, by flow name; comparable within one result only.
        confidence: From 0 to 1.
        source: What decided: rule, local, lm or fallback; "" where there was nothing to decide.
        degraded, cause: Whether a part that should have been asked failed, and how.
    """

    chosen_flows: list[Any] = field(default_factory=list)
    chosen_prompts: list[str] = field(default_factory=list)
    combined_prompt: str = ""
    unresolved_ids: list[str] = field(default_factory=list)
    invented_ids: list[str] = field(default_factory=list)
    candidates: list[dict[str, Any]] = field(default_factory=list)
    scores: dict[str, float] = field(default_factory=dict)
    confidence: float = 0.0
    reason: str = ""
    source: str = ""
    mode: str = "single"
    clarify: list[str] = field(default_factory=list)
    degraded: bool = False
    cause: str | None = None


class FlowSelector:
    """Chooses flows for a message: recall, then a closed choice among what was recalled, "none" included.

    Args:
        llm: What :func:`~jazzmine_dspy.lm.resolve.as_lm` takes: a language model, the name of one, an object with
            ``async agenerate(messages)`` as jazzmine has it, or an asynchronous method from a prompt to a text. Or a
            program: its ``select`` prompt is asked of the language model that is bound, else its local decider selects.
        flow_registry: The flows: a registry, or a mapping of names or ids to flows.
        proc_mem: A recall port, or an object with ``async recall(query, agent_id, top_k, rrf_k)`` that
            returns mappings with ``flow_id``, ``flow_name``, ``description``, ``condition`` and ``score``.
            Without one, a program's own recall is used.
        agent_id: Whose flows are recalled.
        top_k: Candidates, 1 to 8: each has a letter in the prompt.
        rrf_k: Constant of rank fusion, handed to ``proc_mem``; a recall port brings its own.

    Raises:
        InputError: ``top_k`` out of range, or a language model that is none.
    """

    deadline: float | None = 10.0
    """Seconds for one selection; a part that is late counts as down. None for no limit."""

    def __init__(
        self,
        llm: Any,
        flow_registry: FlowRegistry | Mapping[Any, Any],
        proc_mem: Any = None,
        agent_id: str = "",
        top_k: int = 3,
        rrf_k: int = 10,
    ) -> None:
        if type(top_k) is not int or not 1 <= top_k <= len(ALIASES):
            raise InputError(f"top_k is {top_k!r}", where="top_k", remedy=f"Choose 1 to {len(ALIASES)}.")
        self.registry = (
            flow_registry
            if isinstance(flow_registry, FlowRegistry)
            else FlowRegistry(flow_registry, agent_id=agent_id)
        )
        self.agent_id = agent_id or self.registry.agent_id
        self.top_k = top_k
        self.rrf_k = rrf_k
        self._program = _program(llm, self.registry)
        self._memory: Any = proc_mem if proc_mem is not None else self._program.bindings.recall
        self._names = _names(flow_registry, self.registry, self.agent_id)
        self._prompts = FlowPrompts()

    async def select(
        self,
        enhanced_query: str,
        candidates: Iterable[Any] | None = None,
        episode_summaries: Sequence[str] | None = None,
    ) -> FlowSelectionResult:
        """Choose flows.

        Args:
            enhanced_query: What the user means, 1 to 8,000 characters.
            candidates: Used in the place of recall, at most 8 of them: mappings as ``proc_mem`` returns them,
                or pairs of name and score.
            episode_summaries: One line for each earlier episode, oldest first; of those that say something the newest
                three count. They find the candidates of a message that only refers to them ("do that again"), bring
                one in where its own words name no single flow, and are shown to the language model.

        Returns:
            The result. Nothing to choose from gives an empty one; a part that fails degrades it.

        Raises:
            InputError: an empty query, or one over the limit, more than 8 candidates, or a candidate that is none.
        """
        summaries = [episode_summaries] if isinstance(episode_summaries, str) else episode_summaries or ()
        turn = as_turn(None, enhanced_query).model_copy(
            update={"date": None, "episode_summaries": recent(summaries)}
        )
        deadline = Deadline(self.deadline, self._program.bindings.clock)
        result = FlowSelectionResult()
        offered: list[_Candidate] = []
        if candidates is not None:
            offered += [(None, self._as_mapping(each)) for each in candidates]
            if len(offered) > len(ALIASES):
                raise InputError(
                    f"{len(offered)} candidates are given",
                    where="candidates",
                    remedy=f"Pass the {len(ALIASES)} best.",
                )
        elif self._memory is not None:
            offered = await self._recall(turn, result, deadline)
        result.candidates = [described for _, described in offered]
        known = self._resolve(offered, result)
        if not known:
            result.reason = "there are no candidates"
            return result
        # A head may know flows that were not recalled; what was given to choose from is all there is.
        views = tuple(view for view in self.registry.views if view.name in result.scores)
        turn = turn.model_copy(update={"available_flows": views})
        policy, bindings = self._program.policy, self._program.bindings
        if isinstance(self._memory, RecallPort):
            # Parts of the message are recalled from where its candidates are.
            bindings = bindings.but(recall=self._memory)
        state = TurnState(turn, self.registry, policy, bindings, deadline=deadline)
        state = replace(state, recalled=tuple(one for one in known if one.name in state.choosable))
        selection, record = await self._selection(state, deadline, result)
        if record.degraded:
            log.warning("flow selection is degraded: %s", record.cause)
        if record.source != "rule":
            try:
                selection = await in_thread(functools.partial(never_missed, state, selection))
            except Exception as error:
                result.degraded, result.cause = True, f"never_miss: {format_error(error)}"
        names = [name for name in dict.fromkeys(selection.flows) if name in result.scores]
        result.chosen_flows = [self.registry[name] for name in names]
        result.chosen_prompts = [self._prompts.of(flow) for flow in result.chosen_flows]
        result.combined_prompt = "\n\n".join(result.chosen_prompts)
        result.confidence = record.confidence
        result.reason = selection.reason
        result.source = record.source
        result.mode = selection.mode if len(names) > 1 else "single"
        result.clarify = [name for name in selection.clarify if name in result.scores]
        result.degraded = result.degraded or record.degraded
        result.cause = "; ".join(filter(None, (result.cause, record.cause))) or None
        return result

    async def _selection(
        self, state: TurnState, deadline: Deadline, result: FlowSelectionResult
    ) -> tuple[Selection, StageRecord]:
        """The selection: of the language model where there is one, and of the local decider where that fails."""
        cause = ""
        calls: tuple[LMCall, ...] = ()
        if state.bindings.lm_for() is not None and state.policy.asks("select"):
            draft = await LMDecider(self._program, stages=("select",), ids=self._names).adraft(
                state, deadline
            )
            result.invented_ids = list(draft.invented)
            by_lm = draft.records.get("select")
            if draft.selection is not None and by_lm is not None:
                return draft.selection, by_lm
            cause, calls = (by_lm.cause or "", by_lm.calls) if by_lm else ("there are no candidates", ())
        # Nothing of a decision that is left to it needs more time than there is.
        local = functools.partial(LocalDecider().select, state, None if cause else read_closed(state))
        chosen = await in_thread(local)
        causes = "; ".join(filter(None, (cause, chosen.cause)))
        return chosen.selection, made_record(chosen.source, chosen.confidence, 0.0, calls, cause=causes)

    async def _recall(self, turn: Turn, result: FlowSelectionResult, deadline: Deadline) -> list[_Candidate]:
        """The candidates of the memory, or of the program's own index if it is down; the result gets the causes."""
        own = self._program.bindings.recall
        causes: list[str] = []
        candidates: list[_Candidate] = []
        for memory in (self._memory, own if own is not self._memory else None):
            if memory is None:
                continue
            try:
                left = deadline.left()
                # The stand-in has half of the time to itself.
                wait = left if left is None or memory is own or own is None else left / 2
                async with asyncio.timeout(wait):
                    candidates, cause = await self._recall_from(memory, turn)
            except Exception as error:
                causes.append(f"recall: {format_error(error)}")
            else:
                causes += filter(None, [cause])
                break
        if causes:
            result.degraded, result.cause = True, "; ".join(causes)
            log.warning("flow selection is degraded: %s", result.cause)
        return candidates[: self.top_k]

    async def _recall_from(self, memory: Any, turn: Turn) -> tuple[list[_Candidate], str | None]:
        """The candidates of a memory, and why a stand-in answered in its place, if one did."""
        query, summaries = recall_query(turn, turn.text, self.registry)
        candidates, cause = await self._ask(memory, query, turn)
        if summaries and self.top_k > 1:
            further, _ = await self._ask(memory, "\n".join(summaries), turn)
            candidates = _merge_candidates(candidates, further, self.top_k)
        return candidates, cause

    async def _ask(self, memory: Any, query: str, turn: Turn) -> tuple[list[_Candidate], str | None]:
        if isinstance(memory, RecallPort):
            allowed = allowed_flows(self.registry, turn)
            recall = functools.partial(memory.recall, query, k=self.top_k, allowed=allowed)
            recalled = await in_thread(recall)
            cause = recalled.cause if isinstance(recalled, Degraded) else None
            return [(one, self._as_mapping(one)) for one in recalled], cause
        mappings = await memory.recall(
            query=query, agent_id=self.agent_id, top_k=self.top_k, rrf_k=self.rrf_k
        )
        return [(None, self._as_mapping(one)) for one in mappings], None

    def _as_mapping(self, candidate: Any) -> dict[str, Any]:
        if isinstance(candidate, Mapping):
            return dict(candidate)
        try:
            name, score = candidate[0], float(candidate[1])
        except (TypeError, ValueError, LookupError) as error:
            raise InputError(
                "A candidate is neither a mapping nor a pair of name and score",
                where="candidates",
                remedy="Pass such as ('track_order', 0.9).",
            ) from error
        flow = self.registry.get(name)
        return {
            "flow_id": flow.id_for(self.agent_id) if flow else str(name),
            "flow_name": str(name),
            "description": flow.description if flow else "",
            "condition": flow.condition if flow else "",
            "score": score,
        }

    def _resolve(self, candidates: Sequence[_Candidate], result: FlowSelectionResult) -> list[Recalled]:
        """Candidates that the registry knows, each once; the others are noted as unresolved."""
        known: dict[str, Recalled] = {}
        for recalled, candidate in candidates:
            keys = [
                str(candidate[key]) for key in ("flow_id", "id", "flow_name", "name") if candidate.get(key)
            ]
            name = next((self._names[key] for key in keys if key in self._names), None)
            if name is None:
                stale = keys[0] if keys else repr(dict(candidate))
                if stale not in result.unresolved_ids:
                    result.unresolved_ids.append(stale)
            elif name not in known:
                known[name] = recalled or Recalled(name, _score(candidate.get("score")))
        if result.unresolved_ids:
            log.warning(
                "memory has flows that the registry does not have: %s", ", ".join(result.unresolved_ids)
            )
        result.scores = {one.name: one.score for one in known.values()}
        return list(known.values())


class FlowPrompts:
    """Remembers the prompts of the flows that were chosen last, by their content: a flow that changes gets a new one.

    Args:
        kept: How many are remembered.

    Example:
        >>> prompts, flow = FlowPrompts(), Flow(name="track", description="Tell where <it> is.")
        >>> "&lt;it&gt;" in prompts.of(flow), prompts.of(flow) is prompts.of(flow.model_copy())
        (True, True)
    """

    def __init__(self, kept: int = 512) -> None:
        self._kept = kept
        self._prompts: OrderedDict[str, str] = OrderedDict()

    def __len__(self) -> int:
        return len(self._prompts)

    def of(self, flow: Flow) -> str:
        """The prompt of a flow, without its examples."""
        key = flow.checksum()
        if key not in self._prompts:
            self._prompts[key] = flow.build_prompt(verbose=False)
        self._prompts.move_to_end(key)
        while len(self._prompts) > self._kept:
            self._prompts.popitem(last=False)
        return self._prompts[key]


def _program(llm: Any, registry: FlowRegistry) -> TurnProgram:
    # All candidates are offered: how many there are is settled before.
    every = len(ALIASES)
    if isinstance(llm, TurnProgram):
        policy = llm.policy.model_copy(update={"shape": "staged", "top_k": every})
        return llm.with_policy(policy).bind(registry=registry)
    policy = Policy(shape="staged", top_k=every, deciders=(("lm", None),))
    return TurnProgram(registry, policy=policy).bind(lm=as_lm(llm))


def _names(flows: Mapping[Any, Any], registry: FlowRegistry, agent_id: str) -> dict[str, str]:
    """The names of flows by all ids that memory may hold: their own, and the keys of the caller's mapping."""
    names: dict[str, str] = {}
    for (name, flow), key in zip(registry.items(), flows, strict=True):
        names |= dict.fromkeys((flow.id_for(agent_id), flow.id_for(""), str(key)), name)
    # A name wins over another flow's id.
    return names | {name: name for name in registry}


def _merge_candidates(
    candidates: list[_Candidate], further: list[_Candidate], top_k: int
) -> list[_Candidate]:
    """The candidates of a query, and behind them those of a further query that are new, in the places that are free.

    Where none is free, the last one gives its place to the best of the further query, unless that is there already. So
    the further query brings candidates in, and changes the order of none.
    """
    names = [_key(one) for one in candidates[:top_k]]
    free = top_k - len(names) or int(bool(further) and _key(further[0]) not in names)
    new = [one for one in further if _key(one) not in names][:free]
    joined = candidates[: top_k - len(new)]
    least = min((_score(one.get("score")) for _, one in joined), default=math.inf)
    for recalled, described in new:
        score = min(least, SUMMARY_WEIGHT * _score(described.get("score")))
        # What was measured against the further query says nothing of the message.
        alone = None if recalled is None else Recalled(recalled.name, score)
        joined.append((alone, {**described, "score": score}))
    return joined


def _key(candidate: _Candidate) -> str:
    return str(candidate[1].get("flow_id") or candidate[1].get("flow_name"))


def _score(value: Any) -> float:
    try:
        score = float(value)
    except (TypeError, ValueError):
        return 0.0
    return score if math.isfinite(score) else 0.0
