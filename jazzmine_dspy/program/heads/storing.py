"""Trained models as one safetensors file: arrays under the model's key, the rest as JSON in its metadata.

The heads of a program stand under their stages. What deciders of other packages have learnt is stored in the same way.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load, save

from jazzmine_dspy.models.base import canonical_json
from jazzmine_dspy.models.decision import Stage
from jazzmine_dspy.models.errors import ArtifactError, format_error
from jazzmine_dspy.program.heads.acts.fit import ActsHead
from jazzmine_dspy.program.heads.acts.model import metadata_of
from jazzmine_dspy.program.heads.feeling.head import FeelingHead
from jazzmine_dspy.program.heads.selection import SelectionHead
from jazzmine_dspy.program.ports import HeadPort, HeadState, Stored

HEADS: dict[Stage, type[Any]] = {"enhance": FeelingHead, "select": SelectionHead, "understand": ActsHead}
"""The kind of head that each stage stores."""

_REMEDY = "Compile the program again."


def heads_to_bytes(heads: Mapping[Stage, HeadPort[Any]]) -> bytes:
    """All heads; equal heads give equal bytes.

    Raises:
        ArtifactError: a head is of another kind than its stage stores.
    """
    for stage, head in heads.items():
        if not isinstance(head, HEADS[stage]):
            raise ArtifactError(
                f"The head of the stage {stage!r} is of the kind {type(head).__name__}, which no artefact stores",
                remedy="Unbind it before you save, or write a decider of your own.",
            )
    known: Mapping[Stage, Any] = heads
    return states_to_bytes({str(stage): head.to_state() for stage, head in known.items()})


def heads_from_bytes(data: bytes, where: str = "heads.safetensors") -> dict[Stage, HeadPort[Any]]:
    """The inverse of :func:`heads_to_bytes`.

    Raises:
        ArtifactError: the data are damaged, or a head is of another format.
    """
    states = states_from_bytes(data, where)
    if strange := sorted(set(states) - set(HEADS)):
        raise ArtifactError(f"There is no stage {strange[0]!r} for a head", where=where, remedy=_REMEDY)
    return {stage: restored(HEADS[stage], states[stage], where) for stage in HEADS if stage in states}


def restored(kind: type[Stored], state: HeadState, where: str) -> Any:
    """A trained model of a kind by its state.

    Raises:
        ArtifactError: the state cannot be read, or is of another format.
    """
    try:
        return kind.from_state(state)
    except ArtifactError as error:
        raise ArtifactError(error.message, where=where, remedy=error.remedy or _REMEDY) from error
    except Exception as error:
        raise _unreadable(error, where) from error


def states_to_bytes(states: Mapping[str, HeadState]) -> bytes:
    """The states of trained models by key; equal states give equal bytes."""
    arrays: dict[str, NDArray[Any]] = {}
    for key, state in sorted(states.items()):
        arrays |= {f"{key}/{name}": np.ascontiguousarray(array) for name, array in state.arrays.items()}
    return save(arrays, {"heads": canonical_json({key: state.settings for key, state in states.items()})})


def states_from_bytes(data: bytes, where: str) -> dict[str, HeadState]:
    """The inverse of :func:`states_to_bytes`.

    Raises:
        ArtifactError: the data are damaged.
    """
    try:
        settings = {key: dict(value) for key, value in json.loads(metadata_of(data)["heads"]).items()}
        arrays = load(data)
    except Exception as error:
        raise _unreadable(error, where) from error
    own: dict[str, dict[str, NDArray[Any]]] = {key: {} for key in settings}
    for name, array in arrays.items():
        key, _, rest = name.partition("/")
        own.setdefault(key, {})[rest] = array
    return {key: HeadState(own[key], settings[key]) for key in settings}


def _unreadable(error: Exception, where: str) -> ArtifactError:
    return ArtifactError(f"The head cannot be read: {format_error(error)}", where=where, remedy=_REMEDY)
