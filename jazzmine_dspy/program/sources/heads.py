"""Local heads as sources: small trained models, asked before the language model."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from jazzmine_dspy.models.commands import Command
from jazzmine_dspy.models.decision import Selection
from jazzmine_dspy.program.bindings import Bindings
from jazzmine_dspy.program.clarify import NONE, TOO_CLOSE, close_pair, margin_of
from jazzmine_dspy.program.clauses import selection_of
from jazzmine_dspy.program.denials import is_denied
from jazzmine_dspy.program.heads.acts import Acts
from jazzmine_dspy.program.heads.acts.free_texts import only_answers
from jazzmine_dspy.program.heads.acts.questions import LONG, without_correcting
from jazzmine_dspy.program.heads.acts.readings import free_text, whole_value
from jazzmine_dspy.program.heads.acts.shipped import SHIPPED, shipped_head
from jazzmine_dspy.program.heads.selection import NEW_FLOW, NOT_NEAR
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.ports import (
    Clause,
    HeadInput,
    HeadOutput,
    HeadPort,
    Recalled,
    SeesTurn,
    SelectionOutput,
)
from jazzmine_dspy.program.sources.choices import meant_options
from jazzmine_dspy.program.sources.registry import source
from jazzmine_dspy.program.stage import CANDIDATES, Answer, Context, Declined, Recall, Source, Steps, features
from jazzmine_dspy.program.starts import Starts, starts, values_for
from jazzmine_dspy.program.undoing import is_opposite, undoes_unasked
from jazzmine_dspy.program.wishes import begins_wish, likely_cuts

ACTS = "acts"
"""Where the context keeps the probabilities of acts, which two stages ask for."""

LIKELY = 0.5
_BOTH_LIKELY, _BEGUN_LIKELY, _HEAD_LIKELY = 0.78, 0.55, 0.75
"""How likely each of two wishes has to be; where the second begins as a wish; and there by a head that has learnt the
flows, which is surer of itself: better one start too few."""

_LONG_LIKELY, _EVEN = 0.7, 0.33
"""How likely the best flow of a long message has to be, and of any, not to be asked about."""

_CUTS = 2
"""Cuts of a message that are tried."""

Judge = Callable[[Context], Steps[tuple[str, float] | None]]
"""Tells the flow that a part of a message starts, and how likely; None where it starts none."""

SHORT = 3
"""Words of a message that says hardly more than an answer."""


@source("enhance", "head")
class HeadSource(Source[Any]):
    """The head that is bound for the stage, and answers with its value."""

    def steps(self, context: Context) -> Steps[Answer[Any] | Declined]:
        """Answer with what the head predicts."""
        head = self.bindings.heads.get(self.stage)
        if head is None:
            return Declined("no head is bound", failed=True)
        given = yield from head_input(head, context, context.choosable, rewritten=False)
        found: HeadOutput[Any] = head.predict(given)
        return Answer(found.value, found.confidence)


@source("understand", "head")
class ActsSource(Source[list[Command]]):
    """The head that is bound for the commands; where none is, the one of acts that comes with the package."""

    fingerprint = SHIPPED

    def steps(self, context: Context) -> Steps[Answer[list[Command]] | Declined]:
        """Answer with what the head predicts; the floor may fall back on it where it is not sure enough."""
        head = acts_head(self.bindings)
        if head is None:
            # Nobody bound one, and the shipped one is for another embedding model or for none: nothing is broken.
            return Declined("no head is bound")
        given = yield from head_input(head, context, context.choosable, rewritten=False)
        found: HeadOutput[list[Command]]
        if isinstance(head, Acts):
            acts = context.memo.get(ACTS) or head.probabilities(given)
            found = head.told(given, acts)
            if shipped_head(self.bindings.embedder) is not None:
                told = yield from meant_options(context, found.value, acts)
                found = found._replace(value=told)
        else:
            found = head.predict(given)
        answer = Answer(found.value, found.confidence)
        context.memo["unsure"] = answer
        if self._leaves(head, answer):
            return Declined("the shipped head is not sure enough")
        return answer

    def _leaves(self, head: HeadPort[Any], answer: Answer[list[Command]]) -> bool:
        """Whether the shipped head is not as sure as its gate asks for, and a language model is there to know better.

        A run that orders the sources fits gates; this is for programs that were never compiled.
        """
        if self.stage in self.bindings.heads or self.bindings.lm_for() is None:
            return False
        if "lm" not in self.policy.orders[self.stage] or "head" in self.policy.gates.get(self.stage, {}):
            return False
        return isinstance(head, Acts) and answer.confidence < head.gate


def acts_head(bindings: Bindings) -> HeadPort[Any] | None:
    """The head of commands that is bound, else the shipped one, where its embedding model is bound."""
    return bindings.heads.get("understand") or shipped_head(bindings.embedder)


@source("select", "head")
class SelectHead(Source[Selection]):
    """The local head over what the embedder and recall tell of the message, "none" included.

    Where it answers, the decision's candidates are in its order; the sources after it see those of recall.
    """

    def steps(self, context: Context) -> Steps[Answer[Selection] | Declined]:
        """Answer with the likeliest flows that may be chosen, with none, or with the two that are too close."""
        head, turn = self.bindings.heads.get("select"), context.turn
        if head is None:
            return Declined("no head is bound", failed=True)
        flows: Sequence[str] = context.choosable
        if not flows:
            return Answer(Selection(reason="no flow may be chosen"))
        given = yield from head_input(head, context, flows)
        found: SelectionOutput = head.predict(given)
        if unasked := _unasked(found.flows, context):
            flows = [name for name in flows if name not in unasked]
            found = head.predict((yield from head_input(head, context, flows)))
        open_to = frozenset(flows)
        new = not _knows(head, flows)
        told = None
        if new or (turn.flow and not found.flows):
            told = yield from told_starts(self.policy, self.bindings, context)
        if told is not None and new:
            return (yield from self._by_starts(told, context))
        if found.left:
            context.memo["head left"] = found.reason
            return Declined(found.reason)
        if len(found.flows) == 1 and (
            both := (yield from two_wishes(context, by_head(head, flows), _HEAD_LIKELY))
        ):
            order = reordered(context.recalled, found.ranking, open_to)
            selection = selection_of(context.turn.text, both, "each part of the message")
            return Answer(selection, found.confidence, candidates=order)
        middle = _in_the_middle(found, told)
        if middle is not None:
            name, share = middle
            found = found._replace(flows=(name,), confidence=share, reason="another task in the middle")
        order = reordered(context.recalled, found.ranking, open_to)
        chosen = list(dict.fromkeys(found.flows))
        ranking = [(name, probability) for name, probability in found.ranking if name in open_to]
        margin = margin_of(self.policy, self.kind, chosen, context.registry)
        pair = [] if middle is not None else close_pair(ranking, chosen, margin)
        if pair and not context.asked_already:
            return Answer(Selection(clarify=pair, reason=TOO_CLOSE), found.confidence, candidates=order)
        reason = found.reason or ("likeliest flow" if chosen else "no flow is likely")
        selection = selection_of(context.turn.text, chosen, reason)
        return Answer(selection, found.confidence, candidates=order)

    def _by_starts(self, told: Starts, context: Context) -> Steps[Answer[Selection]]:
        """Of flows that the head did not learn: what else speaks for each of them decides."""
        order = reordered(context.recalled, told.ranking, frozenset(context.choosable))
        chosen, pair = chosen_of(told, self.policy, self.kind, context)
        if told.wanted >= LIKELY and (
            both := (yield from two_wishes(context, by_starts(self.policy, self.bindings)))
        ):
            return Answer(Selection(flows=both, reason=NEW_FLOW), told.wanted, candidates=order)
        if pair:
            return Answer(Selection(clarify=pair, reason=TOO_CLOSE), told.wanted, candidates=order)
        if not chosen:
            return Answer(Selection(reason=NOT_NEAR), 1.0 - told.wanted, candidates=order)
        return Answer(Selection(flows=chosen, reason=NEW_FLOW), told.ranking[0][1], candidates=order)


def _unasked(flows: Sequence[str], context: Context) -> set[str]:
    """New flows that undo something although the message has no word for it."""
    turn = context.turn
    new = set(flows) & set(context.choosable) - {turn.flow, turn.offering, *turn.paused, *turn.clarifying}
    return {name for name in new if undoes_unasked(context.registry[name], turn)}


def _knows(head: HeadPort[Any], flows: Sequence[str]) -> bool:
    """Whether a head has learnt any of some flows; one that does not say has."""
    labels = getattr(head, "labels", None)
    return labels is None or any(name in labels for name in flows)


def _in_the_middle(found: SelectionOutput, told: Starts | None) -> tuple[str, float] | None:
    """The other flow that a message in the middle of one wants; few of the turns that a head learnt from want any."""
    named = [(name, share) for name, share in found.ranking if name != NONE]
    if found.flows or told is None or told.wanted < LIKELY or not named:
        return None
    # Which one, who has learnt them knows better.
    (best, share), total = named[0], sum(share for _, share in named)
    return (best, told.wanted * share / total) if share > LIKELY * total else None


def told_starts(policy: Policy, bindings: Bindings, context: Context) -> Steps[Starts | None]:
    """What recall, the head of acts and typed values say of flows that nobody has learnt.

    None where the head of acts is not asked for the commands, or the embedding model is not the bundled one.
    """
    head = acts_head(bindings) if "head" in policy.orders["understand"] else None
    if not isinstance(head, Acts) or shipped_head(bindings.embedder) is None:
        return None
    turn = context.turn
    flow = context.registry.get(turn.flow or "")
    corrected = without_correcting(turn.text)
    if (
        flow is not None
        and corrected != turn.text
        and any(whole_value(slot, free_text(corrected), context.at) is not None for slot in flow.slots)
    ):
        # It corrects a value of the running flow, and wants no other.
        return _NOTHING
    if flow is not None and any(
        whole_value(slot, free_text(turn.text), context.at) is not None for slot in flow.slots
    ):
        # It is a value of the running flow, and nothing else.
        return None
    try:
        given = yield from head_input(head, context, context.choosable, rewritten=False)
        acts, added = head.read(given)
        context.memo[ACTS] = acts
    except Exception:
        # The stage of the commands, which asks the same, tells what is broken.
        return None
    slot = flow.slot(turn.awaiting) if flow is not None and turn.awaiting else None
    if slot is not None and only_answers(slot, turn.text):
        return _NOTHING
    if turn.awaiting and len(turn.text.split()) <= SHORT and acts["start"] < LIKELY:
        # First of all a short message answers what was asked, however near to a flow it is.
        return None
    told = starts(
        context.recalled,
        acts,
        turn,
        lambda name: values_for(context.registry[name], turn.text, context.at),
        lambda name: (
            is_opposite(context.registry[name], turn, context.registry)
            or is_denied(turn, context.registry[name])
        ),
    )
    return None if told is None else told.moved(added)


_NOTHING = Starts((), 0.0)
"""No wish for another flow, whatever labels tell."""


def chosen_of(told: Starts, policy: Policy, kind: str, context: Context) -> tuple[list[str], list[str]]:
    """The flow that a message starts, if any, or the two that are too close to choose between."""
    if told.wanted < LIKELY:
        return [], []
    chosen = [told.ranking[0][0]]
    likely = told.ranking[0][1]
    if len(context.turn.text.split()) > LONG and (context.turn.flow or likely < _LONG_LIKELY):
        # A long message is near to several flows, and in the middle of one it rather answers.
        return [], [name for name, _ in told.ranking[:2]] if context.turn.flow is None else []
    shares = [(name, share / told.wanted) for name, share in told.ranking]
    margin = margin_of(policy, kind, chosen, context.registry)
    pair = close_pair(shares, chosen, 1.0 if told.vague >= LIKELY or likely < _EVEN else margin)
    return ([], pair) if pair and not context.asked_already else (chosen, [])


def by_head(head: HeadPort[Any], flows: Sequence[str]) -> Judge:
    """Judges a part of a message by the head that has learnt its flows."""

    def judge(side: Context) -> Steps[tuple[str, float] | None]:
        given = yield from head_input(head, side, flows)
        found: SelectionOutput = head.predict(given)
        return max(found.ranking, key=lambda one: one[1]) if len(found.flows) == 1 else None

    return judge


def by_starts(policy: Policy, bindings: Bindings) -> Judge:
    """Judges a part of a message by what speaks for flows that no head has learnt."""

    def judge(side: Context) -> Steps[tuple[str, float] | None]:
        told = yield from told_starts(policy, bindings, side)
        return None if told is None or told.wanted < LIKELY else told.ranking[0]

    return judge


def two_wishes(context: Context, judge: Judge, begun: float = _BEGUN_LIKELY) -> Steps[list[str]]:
    """Two flows that a message starts one after the other; none where it wants fewer.

    Each side of a cut is judged as a message of its own, and has to be at least as likely a wish as one alone.

    Args:
        context: The turn.
        judge: Judges a side.
        begun: How likely each has to be where the second begins as a wish does.
    """
    flows = [context.registry[name] for name in context.choosable]
    best: tuple[float, list[str]] = (LIKELY, [])
    for sides in likely_cuts(context.turn.text, flows)[:_CUTS]:
        chosen, least = [], 1.0
        for text in sides:
            likeliest = yield from judge((yield from _side(context, text)))
            if likeliest is None:
                break
            chosen.append(likeliest[0])
            least = min(least, likeliest[1])
        enough = len(set(chosen)) == 2 and least > (begun if begins_wish(sides[1], flows) else _BOTH_LIKELY)
        if enough and least > best[0]:
            best = least, chosen
    return best[1]


def _side(context: Context, text: str) -> Steps[Context]:
    """A side of a cut as if it were the message, with what is recalled for it."""
    turn = context.turn.model_copy(update={"text": text})
    allowed = None if context.allowed is None else frozenset(context.allowed)
    found = yield Recall(query=text, k=CANDIDATES, summaries=(), allowed=allowed, exclude=context.exclude)
    side = Context(turn=turn, registry=context.registry, exclude=context.exclude)
    side.recalled = [one for one in found if one.name in context.choosable]
    return side


def head_input(
    head: HeadPort[Any], context: Context, flows: Sequence[str], *, rewritten: bool = True
) -> Steps[HeadInput]:
    """What a head sees of a turn, in service and while it is fitted.

    A head of selection reads the rewrite, whose words and features say what the message means without its context. The
    original stands beside it in what recall found: a rewrite is recalled with the original as a second query, and in
    the fused shape the original alone is. An unchanged rewrite is the message itself, so nothing differs then. Heads of
    other stages read the message as it was written, the rewrite beside it.

    Args:
        head: Says which texts it wants to see the features of.
        context: The turn, with its rewrite and what was recalled.
        flows: Names of the flows that may be chosen, in the registry's order.
        rewritten: Whether the rewrite takes the message's place.
    """
    turn, query = context.turn, context.query
    if rewritten and query != turn.text:
        turn = turn.model_copy(update={"text": query})
    texts = tuple(head.texts_of(turn)) if isinstance(head, SeesTurn) else head.texts(turn.text)
    rows = (yield from features(context, texts)) if texts else np.zeros((1, 0), np.float32)
    clauses = [Clause(text, row) for text, row in zip(texts[1:], rows[1:], strict=True)]
    names = (turn.flow or "", *context.selected, *turn.paused)
    tasks = {name: context.registry[name] for name in names if name in context.registry}
    starting = [name for name in context.selected if name in tasks and name not in turn.paused]
    return HeadInput(
        turn, rows[0], context.recalled, flows, clauses, context.hidden, query, context.slots,
        tasks, starting, context.at,
    )  # fmt: skip


def reordered(
    recalled: Sequence[Recalled], ranking: Sequence[tuple[str, float]], flows: Collection[str]
) -> list[Recalled]:
    """Candidates in the order of a head's ranking, the first ten, with its probabilities for scores.

    Those that recall did not find join; those that the head does not rank follow with 0.

    Example:
        >>> found = [Recalled("a", 0.3), Recalled("b", 0.2)]
        >>> [one[:2] for one in reordered(found, [("c", 0.6), ("none", 0.3), ("b", 0.1)], "abc")]
        [('c', 0.6), ('b', 0.1), ('a', 0.0)]
    """
    found = {one.name: one for one in recalled}
    ranked: dict[str, Recalled] = {}
    for name, share in ranking:
        if name in flows and name not in ranked:
            ranked[name] = found.get(name, Recalled(name, 0.0))._replace(score=share)
            if len(ranked) == CANDIDATES:
                return list(ranked.values())
    rest = [one._replace(score=0.0) for one in recalled if one.name not in ranked]
    return [*ranked.values(), *rest][:CANDIDATES]
