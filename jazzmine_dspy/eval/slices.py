"""Parts of a set of turns that are worth a figure of their own: by flow, wanted command and place."""

from __future__ import annotations

from jazzmine_dspy.datasets.schema import Example

OPENING, MID_FORM = "opening", "a flow is running"
NOTHING = "no command"


def flows_of(example: Example) -> tuple[str, ...]:
    """The flows that a turn is about: those that it is labelled to start, and the running one.

    Example:
        >>> from jazzmine_dspy.datasets.schema import Labels
        >>> from jazzmine_dspy.models.turn import Turn
        >>> turn = Turn(text="and where is 4471?", flow="refund")
        >>> example = Example(
        ...     conversation_id="c", turn_id="t", turn=turn, labels=Labels(flows=("track",)), role="test", line=1
        ... )
        >>> flows_of(example), commands_of(example), place_of(example)
        (('track', 'refund'), (), ('a flow is running',))
    """
    running = (example.turn.flow,) if example.turn.flow else ()
    return tuple(dict.fromkeys((*(example.labels.flows or ()), *running)))


def commands_of(example: Example) -> tuple[str, ...]:
    """The kinds of the commands that a turn is labelled with; "no command" for none, nothing where it has no label."""
    labelled = example.labels.commands
    if labelled is None:
        return ()
    return tuple(dict.fromkeys(command.type for command in labelled)) or (NOTHING,)


def place_of(example: Example) -> tuple[str, ...]:
    """Whether the turn finds a flow running."""
    return (MID_FORM if example.turn.flow else OPENING,)
