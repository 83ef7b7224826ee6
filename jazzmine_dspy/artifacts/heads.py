"""The trained models of a program in its artefact: the only place that knows in which files, and how."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jazzmine_dspy.models.errors import ArtifactError
from jazzmine_dspy.program.decider import DECIDERS
from jazzmine_dspy.program.heads.storing import (
    heads_from_bytes,
    heads_to_bytes,
    restored,
    states_from_bytes,
    states_to_bytes,
)
from jazzmine_dspy.program.ports import Stored
from jazzmine_dspy.program.turn import TurnProgram

HEADS = "heads.safetensors"
LEARNT = "deciders.safetensors"


def heads_to_files(program: TurnProgram) -> dict[str, bytes]:
    """The files that hold a program's heads, and what its bound deciders have learnt; none where it has none.

    Raises:
        ArtifactError: a head is of another kind than its stage stores, or nobody registered the class of a decider.
    """
    heads = program.bindings.heads
    files = {HEADS: heads_to_bytes(heads)} if heads else {}
    bound = {name: one for name, one in program.bindings.deciders.items() if name in program.policy.names}
    if strange := [name for name, one in bound.items() if DECIDERS.get(name) is not type(one)]:
        raise ArtifactError(
            f"The decider {strange[0]!r} ({type(bound[strange[0]]).__name__}) is of no registered class",
            remedy=f"Register its class with @decider({strange[0]!r}), or save another policy.",
        )
    learnt = {name: one.to_state() for name, one in bound.items() if isinstance(one, Stored)}
    return {**files, LEARNT: states_to_bytes(learnt)} if learnt else files


def bind_heads(program: TurnProgram, files: Mapping[str, bytes]) -> None:
    """Bind the heads and the deciders that an artefact's files hold.

    Raises:
        ArtifactError: a file is damaged, of another format, or holds a decider that nobody registered.
        ExtensionError: the package that registers a decider cannot be loaded.
    """
    if HEADS in files:
        program.bind(heads=heads_from_bytes(files[HEADS]))
    if LEARNT not in files:
        return
    states = states_from_bytes(files[LEARNT], LEARNT)
    if strange := [name for name in states if name not in DECIDERS]:
        raise ArtifactError(
            f"The decider {strange[0]!r} is of a class that nobody registered",
            where=LEARNT,
            remedy="Install the package that has it, or import the module that registers it.",
        )
    kinds: dict[str, type[Any]] = {name: DECIDERS[name] for name in states}
    if lost := [name for name, kind in kinds.items() if not hasattr(kind, "from_state")]:
        raise ArtifactError(
            f"The decider {lost[0]!r} cannot be read: its class has no from_state()",
            where=LEARNT,
            remedy="Install the version of its package that the program was compiled with.",
        )
    program.bind(deciders={name: restored(kind, states[name], LEARNT) for name, kind in kinds.items()})
