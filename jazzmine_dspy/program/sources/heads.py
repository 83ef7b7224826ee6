"""Local heads as sources: small trained models, asked before the language model."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from jazzmine_dspy.models.decision import Selection
from jazzmine_dspy.program.clarify import TOO_CLOSE, close_pair
from jazzmine_dspy.program.clauses import selection_of
from jazzmine_dspy.program.ports import Clause, HeadInput, HeadOutput, HeadPort, Recalled, SelectionOutput
from jazzmine_dspy.program.sources.registry import source
from jazzmine_dspy.program.stage import CANDIDATES, Answer, Context, Declined, Features, Source, Steps


@source("enhance", "head")
@source("understand", "head")
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


@source("select", "head")
class SelectHead(Source[Selection]):
    """The local head over what the embedder and recall tell of the message, "none" included.

    Where it answers, the decision's candidates are in its order; the sources after it see those of recall.
    """

    def steps(self, context: Context) -> Steps[Answer[Selection] | Declined]:
        """Answer with the likeliest flows that may be chosen, with none, or with the two that are too close."""
        head, flows = self.bindings.heads.get("select"), context.choosable
        if head is None:
            return Declined("no head is bound", failed=True)
        if not flows:
            return Answer(Selection(reason="no flow may be chosen"))
        open_to = frozenset(flows)
        given = yield from head_input(head, context, flows)
        found: SelectionOutput = head.predict(given)
        if found.left:
            context.memo["head left"] = found.reason
            return Declined(found.reason)
        order = reordered(context.recalled, found.ranking, open_to)
        chosen = list(dict.fromkeys(found.flows))
        ranking = [(name, probability) for name, probability in found.ranking if name in open_to]
        pair = close_pair(ranking, chosen, self.policy.clarify.get(self.kind, 0.0))
        if pair and not context.asked_already:
            return Answer(Selection(clarify=pair, reason=TOO_CLOSE), found.confidence, candidates=order)
        reason = found.reason or ("likeliest flow" if chosen else "no flow is likely")
        selection = selection_of(context.turn.text, chosen, reason)
        return Answer(selection, found.confidence, candidates=order)


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
    texts = head.texts(turn.text)
    rows = (yield Features(texts)) if texts else np.zeros((1, 0), np.float32)
    clauses = [Clause(text, row) for text, row in zip(texts[1:], rows[1:], strict=True)]
    return HeadInput(turn, rows[0], context.recalled, flows, clauses, context.hidden, query, context.slots)


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
