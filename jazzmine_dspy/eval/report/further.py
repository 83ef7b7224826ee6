"""What an update changed, and whole conversations with the program's own state."""

from __future__ import annotations

from typing import Any

from jazzmine_dspy.eval.report.shown import DASH, pointer
from jazzmine_dspy.eval.report.tables import Cell, Figure, Scored, Table

Document = dict[str, Any]

_SHARES = {"conversations": "all turns right", "ends_right": "end right"}
_MOST = 20


def sections(data: Document) -> list[tuple[str, Table, str]]:
    """Title, table and note of each part; tables without rows where the report says nothing of it."""
    return [
        (
            "Flows that changed, or lack turns",
            flows(data),
            "Turns that want the flow started, by part. A flow that lacks them is known by its own sayings alone, and "
            "no figure tells how well.",
        ),
        (
            "Whole conversations",
            conversations(data),
            "The user says what the dataset has; the program goes on from its own state. Right is the state that the "
            "labels lead to.",
        ),
        (
            "Where conversations go wrong first",
            first_errors(data),
            "What of the state was wrong, over conversations.",
        ),
    ]


def flows(data: Document) -> Table:
    """Flows that changed since the program was compiled, with their turns."""
    rows = tuple(
        (
            one["flow"],
            one["change"],
            *(
                Figure(pointer("updated", i, part), "count") if one["change"] != "removed" else DASH
                for part in ("train", "dev", "test")
            ),
            ", ".join(one["lacks"]) or DASH,
        )
        for i, one in enumerate(data.get("updated", ()))
    )
    return Table("updated", ("Flow", "Change", "Train", "Dev", "Test", "Lacks turns in"), rows, texts=2)


def conversations(data: Document) -> Table:
    """How many conversations are right, and what a first error costs the turns after it."""
    found = data.get("replay")
    if not found:
        return Table("replay", ("", "Share, %", "Of"), ())
    rows: list[tuple[Cell, ...]] = [
        (
            f"conversations: {words}",
            Scored(pointer("replay", "shares", name), "share"),
            Figure(pointer("replay", "conversations"), "count"),
        )
        for name, words in _SHARES.items()
        if name in found["shares"]
    ]
    if found["after_first_error"]["turns"]:
        many = Figure(pointer("replay", "after_first_error", "turns"), "count")
        rows += [
            (
                f"turns after a first error right{words}",
                Figure(pointer("replay", "after_first_error", key), "share"),
                many,
            )
            for key, words in (("right", ""), ("right_apart", ", without that error"))
        ]
    return Table("replay", ("", "Share, %", "Of"), tuple(rows))


def first_errors(data: Document) -> Table:
    """What was wrong first."""
    found = (data.get("replay") or {}).get("first_errors", {})
    rows = tuple((name, Figure(pointer("replay", "first_errors", name), "count")) for name in found)
    return Table("replay-first", ("What", "Conversations"), rows[:_MOST])
