"""Flows and their slots, as an assistant's author writes them."""

from __future__ import annotations

import operator
import re
import uuid
from collections.abc import Sequence
from typing import Any, Literal
from xml.sax.saxutils import escape, quoteattr

from pydantic import Field, field_validator, model_validator

from jazzmine_dspy.models.base import Value, sha256
from jazzmine_dspy.models.slot_types import Slot, SlotType
from jazzmine_dspy.models.slots import Title

__all__ = ["Flow", "Guard", "Slot", "SlotType", "Status"]

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that no XML text can hold, escaped or not."""

_NAMESPACE = uuid.UUID("6f1c3f0a-5f0e-5c1b-9a3a-3a6d1f4b8c21")


Status = Literal["idle", "in_flow", "collecting_slots", "awaiting_confirmation", "executing_action"]
"""What a conversation may wait for, as guards name it."""


class Guard(Value):
    """Hides a flow unless the state fits: every condition that is given must hold.

    Args:
        status: The conversation's status is one of these.
        requires_slots: All these slots are filled.
        user: The user's attributes have these values, as texts; of an attribute that is a list one item must.

    Example:
        >>> Guard(status=["idle"], user={"plan": "gold", "adult": True}).user
        (('plan', 'gold'), ('adult', 'true'))
    """

    status: tuple[Status, ...] = ()
    requires_slots: tuple[str, ...] = ()
    user: tuple[tuple[str, str], ...] = ()

    @field_validator("user", mode="before")
    @classmethod
    def _texts(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        return tuple((name, _as_text(value)) for name, value in data.items())


def _as_text(value: Any) -> Any:
    """A value of a guard as text; what is none of the kind is left to be refused."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


class Flow(Value):
    """One task that the assistant can do.

    ``never_miss`` marks a flow that starts, or is asked about, whenever a message is likely enough to want it.
    ``kind`` is ``flow`` for a leaf; ``sequential``, ``parallel`` and ``conditional`` hold ``subflows``
    (of a conditional: what is done where ``condition_expr`` holds, then what is done where it doesn't).

    Example:
        >>> flow = Flow(name="track_order", description="Tell where an order is.")
        >>> flow.id_for("support") == flow.id_for("support"), flow.id_for("support") == flow.id_for("sales")
        (True, False)
    """

    name: str = Field(min_length=1, max_length=128)
    # What users hear. No prompt has it, and flows without one keep their checksums.
    title: Title = Field(default="", exclude_if=operator.not_)
    description: str = Field(min_length=1)
    condition: str = ""
    desired_effects: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    slots: tuple[Slot, ...] = Field(default=(), max_length=100)
    tools: tuple[str, ...] = ()
    priority: int = 0
    category: str = ""
    keywords: tuple[str, ...] = ()
    guards: tuple[Guard, ...] = ()
    confirm: str = ""
    # Left out of the JSON form where it is false: flows without it keep their checksums.
    never_miss: bool = Field(default=False, exclude_if=lambda value: not value)
    responses: tuple[tuple[str, str], ...] = ()
    kind: Literal["flow", "sequential", "parallel", "conditional"] = "flow"
    subflows: tuple[Flow, ...] = ()
    condition_expr: str = ""

    @field_validator("responses", mode="before")
    @classmethod
    def _pairs(cls, data: Any) -> Any:
        return tuple(data.items()) if isinstance(data, dict) else data

    @model_validator(mode="after")
    def _shape_fits(self) -> Flow:
        names = [slot.name for slot in self.slots]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"slot {twice[0]!r} is defined twice")
        if (self.kind == "flow") == bool(self.subflows):
            raise ValueError(
                "sequential, parallel and conditional flows need subflows, and only they have them"
            )
        if self.kind == "conditional" and (not self.condition_expr or len(self.subflows) > 2):
            raise ValueError("a conditional flow needs condition_expr and one or two subflows")
        return self

    def slot(self, name: str) -> Slot | None:
        """The slot of that name, or None."""
        return next((slot for slot in self.slots if slot.name == name), None)

    def id_for(self, agent_id: str) -> str:
        """The id that this flow has for an agent: a uuid5 of both names, so that it outlives edits."""
        return str(uuid.uuid5(_NAMESPACE, f"{agent_id}\x1f{self.name}"))

    def checksum(self) -> str:
        """SHA-256 over the whole content, subflows included."""
        return sha256(self.model_dump(mode="json"))

    def build_prompt(self, verbose: bool = True) -> str:
        """The flow as XML for an agent's prompt; every text is escaped.

        Args:
            verbose: Also show examples and keywords.
        """
        attributes = [
            f"name={_attribute(each.name)} type={_attribute(each.type)}" + ' required="true"' * each.required
            for each in self.slots
        ]
        lines = [
            f"<flow name={_attribute(self.name)} kind={_attribute(self.kind)}>",
            *_tags("description", [self.description]),
            *_tags("condition", [self.condition] if self.condition else []),
            *_tags("effect", self.desired_effects),
            *_tags("tool", self.tools),
            *_tags("slot", [slot.description for slot in self.slots], attributes),
            *_tags("example", self.examples if verbose else ()),
            *_tags("keyword", self.keywords if verbose else ()),
            *_tags("when", [self.condition_expr] if self.condition_expr else []),
            *(f"  {line}" for part in self.subflows for line in part.build_prompt(verbose).split("\n")),
            "</flow>",
        ]
        return "\n".join(lines)


def _tags(tag: str, texts: Sequence[str], attributes: Sequence[str] = ()) -> list[str]:
    opened = [f"{tag} {each}" for each in attributes] or [tag] * len(texts)
    return [
        f"  <{opening}>{escape(_NO_XML.sub('', text))}</{tag}>"
        for opening, text in zip(opened, texts, strict=True)
    ]


def _attribute(text: str) -> str:
    return quoteattr(_NO_XML.sub("", text))
