"""The heads of a program in its artefact: the only place that knows in which file, and how."""

from __future__ import annotations

from collections.abc import Mapping

from jazzmine_dspy.program.heads import heads_from_bytes, heads_to_bytes
from jazzmine_dspy.program.turn import TurnProgram

HEADS = "heads.safetensors"


def heads_to_files(program: TurnProgram) -> dict[str, bytes]:
    """The files that hold a program's heads, by name; empty where it has none.

    Raises:
        ArtifactError: a head is of no registered kind.
    """
    heads = program.bindings.heads
    return {HEADS: heads_to_bytes(heads)} if heads else {}


def bind_heads(program: TurnProgram, files: Mapping[str, bytes]) -> None:
    """Bind the heads that an artefact's files hold.

    Raises:
        ArtifactError: the file is damaged, of another format, or holds a kind of head that nobody registered.
    """
    if HEADS in files:
        program.bind(heads=heads_from_bytes(files[HEADS]))
