"""Writing other words for a prompt: by a language model that can, else by templates of the commonest errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import dspy
from dspy.teleprompt.gepa.instruction_proposal import ProposeInstruction
from dspy.utils.exceptions import AdapterParseError

from jazzmine_dspy.eval.feedback import UNUSABLE, Feedback
from jazzmine_dspy.lm.errors import BudgetExhausted
from jazzmine_dspy.models.commands import UNDERSTOOD
from jazzmine_dspy.models.errors import format_error

MARK = "Often wrong, so mind:"
"""Stands before the lines that templates have written."""

_CLASSES = 5
"""Classes of errors that templates speak of, the commonest of each kind first."""
_ACTED_ON = ("commands", "flows", UNUSABLE)
"""Errors that templates speak of before others: a dialogue goes wrong by them."""
_TRIES = 2
"""Texts that cannot be used in a row, and none before, after which a model is taken to be too small to write."""
_SHORTEST, _LONGEST = 8, 8000
_WORDS, _VARIED = 40, 0.2
"""From so many words on, the share that must differ: a small model repeats itself."""


class DescribeField(dspy.Signature):
    """An assistant fills in the fields of a form for each message of a user. You are given its instructions, the
    description of one field, and examples: what it was given, how it filled in the form, and what is wrong with that
    field.

    Write another description of that field, in one or two sentences: what belongs into it, in which form, and what
    does not. Say what the examples show to be missing. It is about this field alone."""

    current_instruction: str = dspy.InputField(desc="The assistant's instructions, which stay as they are.")
    field_name: str = dspy.InputField(desc="The field.")
    current_description: str = dspy.InputField(desc="Its description so far.")
    examples_with_feedback: list[dict[str, Any]] = dspy.InputField(
        desc="What the assistant was given, what it answered, and what is wrong with it."
    )
    new_description: str = dspy.OutputField(desc="The new description of the field.")


class Writer:
    """Writes another text for a part of a prompt.

    A language model whose texts cannot be used (no answer in the form asked for, nothing new, the same words again and
    again) is too small to write: that is noted once, and it is asked no more.

    Args:
        lm: Who writes; None for templates alone.
        note: Is told of it.
    """

    def __init__(self, lm: dspy.LM | None, note: Callable[[str], None]) -> None:
        self.lm = lm
        self.note = note
        self.written = self.failed = 0
        self._why = ""
        self.seen: Counter[tuple[str, ...]] = Counter()
        self._examples: dict[tuple[str, ...], list[Feedback]] = {}

    def learn(self, findings: Iterable[Feedback]) -> None:
        """Take note of what was wrong, for the templates."""
        for finding in findings:
            self.seen[finding.kind] += 1
            held = self._examples.setdefault(finding.kind, [])
            if finding.said not in [each.said for each in held] and len(held) < _CLASSES:
                held.append(finding)

    def instruction(self, current: str, records: Sequence[Mapping[str, Any]]) -> str:
        """Other instructions for a predictor."""
        asked = {"current_instruction": current, "examples_with_feedback": list(records)}
        found = self._asked(ProposeInstruction, "new_instruction", current, asked)
        return found or self.by_template(current)

    def description(
        self, field: str, current: str, instruction: str, records: Sequence[Mapping[str, Any]]
    ) -> str:
        """Another description of a field."""
        asked = {
            "current_instruction": instruction, "field_name": field, "current_description": current,
            "examples_with_feedback": list(records),
        }  # fmt: skip
        found = self._asked(DescribeField, "new_description", current, asked)
        return found or self.by_template(current, field)

    def by_template(self, current: str, field: str = "") -> str:
        """The text with a line for each of the commonest classes of errors; with a field, of those about it.

        Example:
            >>> said = Feedback("commands", "affirm", "deny", ("commands", "affirm", "deny"), "", "sure thing")
            >>> writer = Writer(None, print)
            >>> writer.learn([said])
            >>> print(writer.by_template("Say what the user wants."))
            Say what the user wants.
            Often wrong, so mind:
            - Where affirm is meant answer affirm, not deny: 'sure thing' is affirm.
        """
        plain = current.partition(MARK)[0].rstrip()
        lines = []
        for kind in sorted(self.seen, key=lambda kind: (kind[0] not in _ACTED_ON, -self.seen[kind], kind)):
            line = _line(kind, self._examples[kind][0])
            if line and (not field or self._examples[kind][0].field == field):
                lines.append(line)
        if not lines:
            return plain
        shown = lines[:_CLASSES]
        if field:
            return f"{plain}. {MARK} {'; '.join(line.rstrip('.') for line in shown)}"
        return "\n".join([plain, MARK, *(f"- {line}" for line in shown)])

    def _asked(
        self, signature: type[dspy.Signature], output: str, current: str, inputs: dict[str, Any]
    ) -> str | None:
        if self.lm is None:
            return None
        try:
            with dspy.context(lm=self.lm, adapter=dspy.JSONAdapter(), trace=[]):
                text = str(dspy.Predict(signature)(**inputs)[output] or "").strip()
        except BudgetExhausted:
            raise
        except (AdapterParseError, ValueError, KeyError) as error:
            text, why = "", format_error(error)
        except Exception as error:
            self.note(f"{self.lm.model} could not be asked to write: {format_error(error)}")
            return None
        else:
            why = _unfit(text, current)
        if not why:
            self.written += 1
            return text
        self.failed += 1
        self._why = why
        if self.failed >= _TRIES and not self.written:
            self.close()
        return None

    def close(self) -> None:
        """No more is to be written: say so where the model could not."""
        if self.lm is not None and self.failed and not self.written:
            self.note(
                f"{self.lm.model} is too small to write instructions: of {self.failed} texts none could be used "
                f"({self._why[:200]}); templates of the commonest errors take its place"
            )
            self.lm = None


def _unfit(text: str, current: str) -> str:
    """Why a text cannot stand in a prompt, "" where it can."""
    words = text.split()
    if not _SHORTEST <= len(text) <= _LONGEST:
        return f"{len(text)} characters"
    if text == current.strip():
        return "the same text again"
    if len(words) > _WORDS and len(set(words)) < _VARIED * len(words):
        return "the same words again and again"
    return ""


def _line(kind: tuple[str, ...], example: Feedback) -> str:
    """What a prompt says of a class of errors, "" where nothing helps."""
    said = repr(example.said)
    if kind[0] == UNUSABLE:
        return "Answer with one JSON object that has every field asked for, and with nothing else."
    if kind[0] != "commands":
        return f"{example.field}: for {said} it is {example.wanted}."
    wanted, got = kind[1:]
    if wanted == "order":
        return f"Give the commands in the order in which they are said: {said} is {example.wanted}."
    # What selection says, understanding is not asked for.
    wanted, got = (each if each in UNDERSTOOD else "" for each in (wanted, got))
    if not wanted and not got:
        return ""
    if not got:
        return f"Do not leave out {wanted}: {said} is {example.wanted}."
    if not wanted:
        return f"Do not answer {got} where nothing of the kind is said, as in {said}."
    return f"Where {wanted} is meant answer {wanted}, not {got}: {said} is {example.wanted}."
