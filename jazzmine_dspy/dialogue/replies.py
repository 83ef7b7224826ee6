"""Replies, put together in one place: answers first, then at most one question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jazzmine_dspy.dialogue.texts import say
from jazzmine_dspy.models.flows import Flow
from jazzmine_dspy.models.next_step import NextStep


def join(*texts: str) -> str:
    """Texts as one, without the empty ones.

    Example:
        >>> join("Hello!", "", "What can I do for you?")
        'Hello! What can I do for you?'
    """
    return " ".join(text for text in texts if text)


def compose(
    answers: Sequence[str], step: NextStep, flow: Flow | None = None, values: Mapping[str, Any] | None = None
) -> NextStep:
    """The step with everything that is said.

    The text of ``run_flow`` is for after the flow has run; until then its ``begun`` is said.

    Args:
        answers: What is said before the step's own text.
        flow, values: What the texts belong to.
    """
    text = join(*answers, step.text)
    if step.kind == "run_flow":
        begun = join(*answers, say("begun", flow, values), step.question)
        return step.model_copy(update={"text": text, "begun": begun})
    if not text:
        return step.model_copy(update={"text": say("idle"), "question": say("idle")})
    question = step.question if text.endswith(step.question) else ""
    return step.model_copy(update={"text": text, "question": question})


def without_question(reply: str, question: str) -> str:
    """A reply's answer alone."""
    return reply.removesuffix(question).strip() if question else reply
