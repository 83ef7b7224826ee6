"""What every command says of itself: to prompts, to the merge of stages, to the state machine, to labels."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Protocol

from pydantic import AfterValidator, Field, PlainSerializer

from jazzmine_dspy.models.base import FrozenMap, Value, freeze, thaw
from jazzmine_dspy.models.flows import Flow, Slot

SlotContent = Annotated[Any, AfterValidator(freeze), PlainSerializer(thaw, return_type=Any)]
Slots = Sequence[Slot]
Order = Literal["leave", "running", "value", "opens", "rest"]
Cancellation = Literal["always", "often", "rarely", "never"]
Flag = Literal["intent_change", "resume_request", "slot_value", "digression"]


class DialogueState(Protocol):
    """The state before a message, as a ``Turn`` and a labelled turn have it."""

    @property
    def flow(self) -> str | None:
        """The running flow."""

    @property
    def awaiting(self) -> str | None:
        """The slot that was asked for."""

    @property
    def slots(self) -> FrozenMap:
        """The values of the running flow."""

    @property
    def paused(self) -> tuple[str, ...]:
        """The flows that were set aside, the newest last."""

    @property
    def confirming(self) -> object | None:
        """The yes or no that is open."""

    @property
    def offering(self) -> str | None:
        """The flow that was offered to go back to."""


class BaseCommand(Value):
    """A kind of command: a model, and what is true of all commands of the kind.

    To add one, write it into ``kinds.py`` or into a file of its own, and in the package's ``__init__`` import it, name
    it in the union and in ``__all__``. If it acts on a dialogue in a new way, add a step to ``Dialogue`` and to the
    state machine. A rule's phrases for it, in ``program/acts.py``, are optional. With the defaults of this class it is
    an act without arguments that a language model may always write, stands last in a decision, and changes nothing.

    What a language model says:
        understood: Whether understanding may say it. Flows are started, and asked about, by selection alone.
        lm_listed: Whether prompts list it. Flows are started by letters, and the state tells a correction from a first
            value.
        lm_arguments: What an answer gives with it: nothing, a name, or a name and a value.
        lm_may_name: Whether an answer may give a name with it that it need not give.
        lm_note: What the prompt says of it.
        lm_place: Where prompts list it: slots at 0, leaving at 1, resuming at 2, the rest at 3. Compiled prompts hold
            the order, so it stays.

    How a decision is put together:
        order: "leave" stands first, then what the "running" flow gets, then what "opens" another flow, then "rest". A
            "value" goes to the flow that it belongs to.
        answers: It answers an open yes or no: only one answer counts, and it is carried out first.
        closes: It stands behind the values that are said with it.
        changes: It changes a value, so an open yes or no is a no.
        restarts: What a flow gets in the same message stands behind it, and begins from nothing.
        is_small_talk: Talk that is dropped next to a task.
        about_any_flow: It is about whatever flow is running, so that an open yes or no stays in view.
        digression: The user leaves the task for a question or for talk.
        flag: Which of a decision's four flags such a command sets: ``is_intent_change`` and so on. The first of them in
            this order that any command sets is true.
        intent: What a message amounts to whose first command is this one; "" for the running flow's name, or a question
            where none runs; None for the flow that the command is about.
        cancellation: How often such a command takes back a request.

    What the assistant says:
        does: The step of a :class:`Dialogue` that carries it out, and the fields that the step takes.
        says: Key of the text that the command is answered with; "" for a command that does something else.
        replies: Texts of its answers, by key, where ``models/texts.yaml`` does not have them.

    What labels may name:
        flow_fields, slot_fields: Fields that hold names of flows, and of slots.
    """

    type: str = ""

    understood: ClassVar[bool] = True
    lm_listed: ClassVar[bool] = True
    lm_arguments: ClassVar[tuple[str, ...]] = ()
    lm_may_name: ClassVar[bool] = False
    lm_note: ClassVar[str] = ""
    lm_place: ClassVar[int] = 3
    order: ClassVar[Order] = "rest"
    answers: ClassVar[bool] = False
    closes: ClassVar[bool] = False
    changes: ClassVar[bool] = False
    restarts: ClassVar[bool] = False
    is_small_talk: ClassVar[bool] = False
    about_any_flow: ClassVar[bool] = False
    digression: ClassVar[bool] = False
    flag: ClassVar[Flag | None] = None
    intent: ClassVar[str | None] = None
    cancellation: ClassVar[Cancellation] = "never"
    does: ClassVar[tuple[str, ...]] = ()
    says: ClassVar[str] = ""
    replies: ClassVar[Mapping[str, str]] = {}
    flow_fields: ClassVar[tuple[str, ...]] = ()
    slot_fields: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def name_of_kind(cls) -> str:
        """The kind's ``type``."""
        return str(cls.model_fields["type"].default)

    # --- what a language model says ----------------------------------------------------------------------

    @classmethod
    def possible(cls, state: DialogueState) -> bool:
        """Whether the state leaves room for a command of this kind."""
        return True

    @classmethod
    def names(cls, state: DialogueState, slots: Slots) -> Sequence[str]:
        """What an answer may name, of a kind that takes a name: slots or flows.

        Args:
            slots: Those that the message may fill.
        """
        return ()

    @classmethod
    def read(cls, name: str | None, value: Any, state: DialogueState, slots: Slots) -> BaseCommand | None:
        """The command that an answer means, or None where it is refused.

        Args:
            name, value: What the answer gave with the kind; None where it gave none.
            slots: Those that the message may fill.
        """
        return cls() if cls.possible(state) else None

    def as_answer(self) -> dict[str, Any]:
        """The command as a language model would answer it."""
        given: dict[str, Any] = {name: thaw(getattr(self, name)) for name in self.lm_arguments}
        return {"type": self.type, **given}

    # --- how a decision is put together ------------------------------------------------------------------

    def fits(self, state: DialogueState) -> bool:
        """Whether the state allows this very command."""
        return self.possible(state)

    def resolve(self, state: DialogueState, awaited: Slot | None) -> BaseCommand:
        """The command that it comes to in this state.

        Args:
            awaited: The slot that was just asked for.
        """
        return self

    def opens(self, state: DialogueState) -> str | None:
        """The flow that it turns to, None where it turns to none."""
        return None

    def leaves(self, state: DialogueState) -> str | None:
        """The flow that it leaves, None where it leaves none."""
        return None

    @property
    def slot_name(self) -> str | None:
        """The slot that it acts on, None where it acts on none."""
        return None

    @property
    def owner(self) -> str | None:
        """The flow whose slot it acts on, where it names one."""
        return None

    def is_about(self, flow: Flow) -> bool:
        """Whether it is about the flow that runs, so that an open yes or no stays in view."""
        return self.about_any_flow

    def key(self, state: DialogueState, same: Callable[[Any], Hashable]) -> tuple[Hashable, ...]:
        """What it is compared by: its type and arguments, with what is left open filled in from the state.

        Args:
            same: What a slot's value is compared by.
        """
        return (self.type, *(value for field, value in self if field != "type"))

    # --- what it does ------------------------------------------------------------------------------------

    def apply(self, dialogue: Dialogue) -> bool:
        """Carry it out.

        Returns:
            Whether it changed anything, or is answered by itself.
        """
        if not self.does:
            return dialogue.say(self.says) if self.says else True
        step, *fields = self.does
        return bool(getattr(dialogue, step)(*(thaw(getattr(self, name)) for name in fields)))


class SlotCommand(BaseCommand):
    """What acts on one slot, by its name.

    ``flow`` says whose slot it is, where two flows may have one of that name; None leaves it to the commands before it
    and to the state. JSON holds it only where it is given.
    """

    name: str
    flow: str | None = Field(default=None, exclude_if=lambda flow: flow is None)

    lm_arguments: ClassVar[tuple[str, ...]] = ("name",)
    lm_place = 0
    order: ClassVar[Order] = "running"
    flow_fields = ("flow",)
    slot_fields = ("name",)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        return ((name, value) for name, value in super().__repr_args__() if (name, value) != ("flow", None))

    @classmethod
    def read(cls, name: str | None, value: Any, state: DialogueState, slots: Slots) -> BaseCommand | None:
        return cls(name=name) if name is not None and name in cls.names(state, slots) else None

    @property
    def slot_name(self) -> str | None:
        return self.name

    @property
    def owner(self) -> str | None:
        return self.flow

    def is_about(self, flow: Flow) -> bool:
        return self.flow in (None, flow.name) and flow.slot(self.name) is not None

    def key(self, state: DialogueState, same: Callable[[Any], Hashable]) -> tuple[Hashable, ...]:
        # Whose slot it is, its place among the commands says as well.
        return self.type, self.name


class PausedFlowCommand(BaseCommand):
    """What may name a paused flow."""

    flow: str | None = None

    flow_fields = ("flow",)

    @classmethod
    def names(cls, state: DialogueState, slots: Slots) -> Sequence[str]:
        return state.paused


class Answer(BaseCommand):
    """What answers the open yes or no."""

    order = "running"
    answers = True
    about_any_flow = True

    @classmethod
    def possible(cls, state: DialogueState) -> bool:
        return state.confirming is not None


class Dialogue:
    """What a command is carried out on. By itself it changes nothing.

    The state machine changes a conversation's state, an evaluation counts the slots held, the check of labels notes
    what cannot be. A step that not all of them know is answered with True.

    Returns:
        Each step: whether anything came of it; False for what the state does not allow.
    """

    def affirm(self) -> bool:
        """Say yes to what is open."""
        return True

    def deny(self, name: str | None) -> bool:
        """Say no to what is open; the slot of that name is to be different."""
        return True

    def start(self, name: str) -> bool:
        """Begin a flow; the running one is set aside."""
        return True

    def resume(self, name: str | None) -> bool:
        """Take up a flow that was set aside, the newest where none is named."""
        return True

    def leave(self, name: str | None) -> bool:
        """Drop a flow, the running one where none is named."""
        return True

    def restart(self) -> bool:
        """Begin the running flow anew, or the conversation where none runs."""
        return True

    def put(self, name: str, value: Any, flow: str | None = None) -> bool:
        """Give a slot a JSON value; ``flow`` says whose slot it is, where that is known."""
        return True

    def correct(self, name: str, value: Any, flow: str | None = None) -> bool:
        """Give a slot another value."""
        return self.put(name, value, flow)

    def clear(self, name: str, flow: str | None = None) -> bool:
        """Take a slot's value back."""
        return True

    def skip(self, name: str, flow: str | None = None) -> bool:
        """Go on without a slot."""
        return True

    def say(self, key: str) -> bool:
        """Say the text under a key, the flow's own or the default."""
        return True

    def repeat(self) -> bool:
        """Say the last answer again."""
        return True

    def ask_which(self, flows: Sequence[str]) -> bool:
        """Ask which of these flows is meant."""
        return True

    def hand_over(self) -> bool:
        """Leave the conversation to a person."""
        return True
