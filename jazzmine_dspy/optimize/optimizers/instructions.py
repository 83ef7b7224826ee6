"""The instructions that an optimizer may write: fixed headings, a bounded length, no forged field, no test text."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from jazzmine_dspy.lm.dspy_api import Response
from jazzmine_dspy.program.module import ProgramModule

_BYTES = 4
"""Of text, in a token: a rule of thumb that no tokenizer has to be installed for."""

_TAIL = 6
"""Words at the end of an instruction that show where an answer was cut off."""


def headings(text: str) -> list[str]:
    """The headings of an instruction: its lines that begin with ``# ``.

    Example:
        >>> headings("# Purpose\\nDecide.\\n## More\\n# Answer\\n")
        ['# Purpose', '# Answer']
    """
    return [line.strip() for line in text.splitlines() if line.startswith("# ")]


def _tokens_in(text: str) -> int:
    """About how many tokens a text has.

    Example:
        >>> _tokens_in("Decide what the message asks for.")
        8
    """
    return len(text.encode()) // _BYTES


class InstructionRules:
    """Which instructions of a program's predictors may be sent; each may be worded as in ``base``.

    Args:
        base: Its instructions have the headings.
        max_tokens: Longest instruction, in tokens; the one of ``base`` is never too long.
        copied: Returns the test turns that texts copy words of.
    """

    def __init__(
        self,
        base: ProgramModule,
        max_tokens: int,
        copied: Callable[[Sequence[str]], Sequence[str]] = lambda _texts: (),
    ) -> None:
        self._base = {name: base.predictor(name).signature for name in base.active_predictors()}
        self._max_tokens, self.copied = max_tokens, copied
        self._faults: dict[tuple[str, str], str] = {}
        self._cut_off: set[tuple[str, ...]] = set()

    def fault(self, program: ProgramModule) -> str:
        """Why the instructions of a program are refused; "" if they may be sent."""
        for name, written in self._base.items():
            if (text := program.predictor(name).signature.instructions) == written.instructions:
                continue
            if (name, text) not in self._faults:
                self._faults[name, text] = self._fault(text, written.instructions, [*written.fields])
            if fault := self._faults[name, text]:
                return f"the instruction of {name!r} {fault}"
        return ""

    def _fault(self, text: str, written: str, fields: Sequence[str]) -> str:
        kept = headings(text)
        if lost := [heading for heading in headings(written) if heading not in kept]:
            return f"loses the heading {', '.join(map(repr, lost))}"
        longest = max(self._max_tokens, _tokens_in(written))
        if (tokens := _tokens_in(text)) > longest:
            return f"has about {tokens} tokens, more than {longest}"
        # How DSPy marks fields and chat templates separate messages.
        marker = re.compile(rf"\[\[\s*##|<\||</?(?:{'|'.join(map(re.escape, fields))})>")
        if len(marker.findall(text)) > len(marker.findall(written)):
            return "forges the marker of a field"
        if _tail(text) in self._cut_off:
            return "is cut off"
        if copied := self.copied([text]):
            return f"copies words of {len(copied)} test turns, such as {copied[0]}"
        return ""

    def note_answer(self, response: Response) -> None:
        """Look at an answer of a language model, since what it was writing may have been cut off."""
        if response.finish_reason == "length":
            self._cut_off.add(
                _tail("".join(part.text for part in response.message.parts if part.type == "text"))
            )

    def in_words(self) -> str:
        """The rules for the model that writes, with the reason why its last text was refused."""
        wanted = list(
            dict.fromkeys(line for each in self._base.values() for line in headings(each.instructions))
        )
        rules = [f"Keep these headings as they are: {', '.join(wanted)}."] if wanted else []
        rules.append(f"Write at most {self._max_tokens} tokens.")
        # Test turns are not named to the model that writes.
        if refused := [fault.partition(", such as")[0] for fault in self._faults.values() if fault]:
            rules.append(f"A text was refused because it {refused[-1]}.")
        return " ".join(rules)


def _tail(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"\w+", text)[-_TAIL:])
