"""What people label of a turn."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field, StrictBool, model_validator

from jazzmine_dspy.models.base import Value
from jazzmine_dspy.models.commands import Command
from jazzmine_dspy.models.turn import EntityView, Turn


class DatasetPart(Value):
    """A part of a dataset. Unknown keys are refused, save those beginning with ``x-``, which are skipped."""

    model_config = ConfigDict(json_schema_extra={"patternProperties": {"^x-": {}}})

    @model_validator(mode="before")
    @classmethod
    def _skip_notes(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        return {key: value for key, value in data.items() if not str(key).startswith("x-")}


class Labels(DatasetPart):
    """What a turn means, as people labelled it. A label that is None was not made, and no metric scores it.

    ``sentiment`` lies in [-1.0, 1.0]; an empty ``flows`` or ``commands`` is a label too: nothing is started,
    or nothing changes.

    Example:
        >>> labels = Labels.model_validate({"flows": []})
        >>> labels.flows, labels.commands
        ((), None)
    """

    enhanced: str | None = None
    sentiment: Annotated[float, Field(strict=True, ge=-1.0, le=1.0)] | None = None
    intent: str | None = None
    entities: tuple[EntityView, ...] | None = None
    is_cancellation: StrictBool | None = None
    is_continuation: StrictBool | None = None
    flows: tuple[str, ...] | None = None
    commands: tuple[Command, ...] | None = None


class LabelledMessage(Value):
    """A turn with its labels. Recall shows none of its conversation; "" is no conversation."""

    turn: Turn
    labels: Labels
    conversation_id: str = ""
