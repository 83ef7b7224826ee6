"""The heads of a program in its artefact: the only place that knows in which file, and how."""

from __future__ import annotations

from collections.abc import Mapping

from jazzmine_dspy.program.heads import SelectionHead
from jazzmine_dspy.program.turn import TurnProgram

HEADS = "heads.safetensors"


def heads_to_files(program: TurnProgram) -> dict[str, bytes]:
    """The files that hold a program's heads, by name; empty where it has none that can be stored."""
    head = program.bindings.head
    return {HEADS: head.to_bytes()} if isinstance(head, SelectionHead) else {}


def bind_heads(program: TurnProgram, files: Mapping[str, bytes]) -> None:
    """Bind the heads that an artefact's files hold.

    Raises:
        ArtifactError: the file is damaged, or of another format.
    """
    if HEADS in files:
        program.bind(head=SelectionHead.from_bytes(files[HEADS]))
