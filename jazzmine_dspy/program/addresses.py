"""Which flows a message may give values to, and how prompt and answer call their slots, in the full wording."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from jazzmine_dspy.models.base import FrozenMap
from jazzmine_dspy.models.commands import UNDERSTOOD, BaseCommand, Command
from jazzmine_dspy.models.flows import Flow
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.signatures.answers import ALIASES, CommandAnswer
from jazzmine_dspy.signatures.schema import Addressed


class Named(NamedTuple):
    """A flow under the name that stands before its slots: "" for the running one, else its letter or its own name."""

    label: str
    flow: Flow
    held: FrozenMap


class Addresses:
    """The flows of a call, each once: the running one, those behind letters, paused ones, and those that start.

    Args:
        turn: Gives the running flow, the paused ones, and what they hold.
        registry: The flows by name.
        lettered: Names of the flows that the prompt offers, in the order of their letters.
        starting: Flows that are known to start.

    Example:
        >>> slots = [{"name": "order_id", "type": "text"}]
        >>> flows = [{"name": name, "description": name, "slots": slots} for name in ("track", "cancel")]
        >>> called = Addresses(Turn(text="4471", flow="track"), FlowRegistry(flows), ["track", "cancel"])
        >>> [slot.address for slot in called.slots]
        ['order_id', 'B.order_id']
        >>> called.read(CommandAnswer(type="set_slot", name="B.order_id", value="4471"))
        SetSlot(type='set_slot', name='order_id', flow='cancel', value='4471')
    """

    def __init__(
        self, turn: Turn, registry: FlowRegistry, lettered: Sequence[str] = (), starting: Iterable[str] = ()
    ) -> None:
        self._turn = turn
        self._letters = dict(zip(ALIASES, lettered, strict=False))
        labels = {turn.flow: ""} if turn.flow else {}
        for letter, name in self._letters.items():
            labels.setdefault(name, letter)
        for name in (*reversed(turn.paused), *starting):
            # A flow may be named as a letter is.
            labels.setdefault(name, f"{name}_" if name in self._letters else name)
        self.flows = [
            Named(label, registry[n], self._held(n)) for n, label in labels.items() if n in registry
        ]

    def _held(self, name: str) -> FrozenMap:
        return (
            self._turn.slots
            if name == self._turn.flow
            else FrozenMap.of(self._turn.paused_slots.get(name, {}))
        )

    @functools.cached_property
    def slots(self) -> list[Addressed]:
        """All slots, the running flow's first."""
        slots: list[Addressed] = []
        for label, flow, held in self.flows:
            prefix, owner = (f"{label}.", flow.name) if label else ("", None)
            slots += [
                Addressed(prefix + slot.name, slot, owner, slot.name in held.names) for slot in flow.slots
            ]
        return slots

    def read(self, answer: CommandAnswer) -> BaseCommand | None:
        """The command that an answer means; None where it names nothing of the call, or the state forbids it."""
        kind, name, turn = UNDERSTOOD[answer.type], answer.name, self._turn
        own = [each.slot for each in self.slots if each.flow is None]
        if "name" not in kind.slot_fields:
            if name is not None and kind.flow_fields:
                labels = {each.label: each.flow.name for each in self.flows if each.label}
                name = {**labels, **self._letters}.get(name.strip(), name)
            elif name is not None and (found := self._found(name)) is not None:
                name = found.slot.name if found.flow is None else None
            return kind.read(name, answer.value, turn, own)
        if name is None:
            return kind.read(None, answer.value, turn, own)
        found = self._found(name)
        if found is None:
            # Of several tasks with a slot of that name the commands before it, and what starts, say whose it is.
            alike = [each.slot for each in self.slots if each.slot.name == name.strip()][:1]
            return kind.read(name.strip(), answer.value, turn, alike) if alike else None
        if found.flow is None:
            return kind.read(found.slot.name, answer.value, turn, own)
        aside = turn.model_copy(update={"slots": self._held(found.flow), "awaiting": None})
        meant = kind.read(found.slot.name, answer.value, aside, [found.slot])
        return None if meant is None else meant.model_copy(update={"flow": found.flow})

    def _found(self, name: str) -> Addressed | None:
        """The slot of an address; of a flow's letter or name and the slot's; or of a name that one flow alone has."""
        said = name.strip()
        named = {each.address: each for each in self.slots}
        if said in named:
            return named[said]
        flow, _, slot = said.partition(".")
        flow = self._letters.get(flow.upper(), flow)
        whose = [
            each for each in self.slots if (each.flow or self._turn.flow, each.slot.name) == (flow, slot)
        ]
        alike = [each for each in self.slots if each.slot.name == said]
        return whose[0] if whose else alike[0] if len(alike) == 1 else None

    def written(self, commands: Iterable[Command]) -> list[dict[str, Any]]:
        """Labelled commands as an answer gives them: a value behind a flow that opens is that flow's."""
        opened: str | None = None
        addresses = {(each.flow or self._turn.flow, each.slot.name): each.address for each in self.slots}
        answers: list[dict[str, Any]] = []
        for command in commands:
            if command.order == "opens":
                opened = command.opens(self._turn)
            if not command.understood:
                continue
            answer = command.as_answer()
            if "name" in command.slot_fields:
                name = str(command.slot_name)
                answer["name"] = addresses.get((command.owner or opened or self._turn.flow, name), name)
            elif command.lm_may_name:
                given = getattr(command, (*command.slot_fields, *command.flow_fields)[0])
                answer |= {"name": given} if given and given != self._turn.flow else {}
            answers.append(answer)
        return answers
