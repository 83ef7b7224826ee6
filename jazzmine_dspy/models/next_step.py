"""What the assistant is to do after a turn."""

from __future__ import annotations

from typing import Any, Literal

from jazzmine_dspy.models.base import Value

StepKind = Literal[
    "run_flow",
    "ask_slot",
    "confirm",
    "answer",
    "reask",
    "clarify",
    "resume",
    "offer",
    "handoff",
    "queue",
    "none",
]


class NextStep(Value):
    """What the assistant is to do now.

    ``run_flow`` hands out ``flow`` with all the slots it needs; ``ask_slot`` and ``reask`` wait for ``slot``
    (None after a confirmation was denied without a change named); ``answer`` is about the user's question or
    talk; ``resume`` offers to go back to ``flow``, which was set aside; ``offer`` offers a person, and a yes leads to
    ``handoff``; ``none`` waits for whatever comes. ``text`` is what to say; of ``run_flow``, once the flow has run, and
    ``begun`` is what to say until then. ``question`` is the question at the end of the reply. ``then`` names flows that
    are complete too and follow ``flow`` at once, where nobody begins actions; to those who do, ``finish_action`` hands
    them out one by one. ``choices`` are the flows that ``clarify`` asks to choose from, in the order of the question;
    the next message may answer with a place in it, or a name.
    """

    kind: StepKind
    flow: str | None = None
    slot: str | None = None
    then: tuple[str, ...] = ()
    text: str = ""
    choices: tuple[str, ...] = ()
    question: str = ""
    begun: str = ""

    @property
    def reply(self) -> str:
        """What to say now. Of ``run_flow`` it claims no success: the flow has not run yet."""
        return self.begun if self.kind == "run_flow" and self.begun else self.text

    def record(self) -> dict[str, Any]:
        """The step as it is stored with the state: without choices, question and ``begun`` where there are none."""
        late = {name for name in ("choices", "question", "begun") if not getattr(self, name)}
        return self.model_dump(mode="json", exclude=late)
