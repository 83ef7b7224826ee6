"""The heads of a program as one safetensors file: arrays under their stage, the rest as JSON in its metadata."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from jazzmine_dspy.models.base import canonical_json
from jazzmine_dspy.models.decision import Stage
from jazzmine_dspy.models.errors import ArtifactError, ExtensionError, format_error
from jazzmine_dspy.program.heads.registry import HEADS, HeadState
from jazzmine_dspy.program.ports import HeadPort

if TYPE_CHECKING:
    from numpy.typing import NDArray

_REMEDY = "Compile the program again."


def heads_to_bytes(heads: Mapping[Stage, HeadPort[Any]]) -> bytes:
    """All heads, each with the name of its kind; equal heads give equal bytes.

    Raises:
        ArtifactError: a head is of no registered kind.
    """
    from safetensors.numpy import save

    arrays: dict[str, NDArray[Any]] = {}
    said: dict[str, Any] = {}
    for stage, head in sorted(heads.items()):
        state = HEADS[_name_of(stage, head)].to_state(cast("Any", head))
        arrays |= {f"{stage}/{name}": np.ascontiguousarray(array) for name, array in state.arrays.items()}
        said[stage] = {"kind": _name_of(stage, head).partition(".")[2], "settings": state.settings}
    return save(arrays, {"heads": canonical_json(said)})


def heads_from_bytes(data: bytes, where: str = "heads.safetensors") -> dict[Stage, HeadPort[Any]]:
    """The inverse of :func:`heads_to_bytes`.

    Raises:
        ArtifactError: the data are damaged, or a head is of a kind that nobody registered.
        ExtensionError: the package that registers a kind cannot be loaded.
    """
    from safetensors.numpy import load

    try:
        # safetensors tells the metadata of files only; they are in the JSON that its length precedes.
        metadata = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])["__metadata__"]
        said = json.loads(metadata["heads"])
        arrays = load(data)
    except Exception as error:
        raise _unreadable(error, where) from error
    try:
        named = {stage: (str(each["kind"]), each["settings"]) for stage, each in said.items()}
    except Exception as error:
        raise _unreadable(error, where) from error
    found: dict[Stage, HeadPort[Any]] = {}
    for stage, (kind, settings) in named.items():
        if f"{stage}.{kind}" not in HEADS:
            raise ArtifactError(
                f"The head of the stage {stage!r} is of the kind {kind!r}, which nobody registered",
                where=where,
                remedy="Install the package that has it, or import the module that registers it.",
            )
        own = {
            key.removeprefix(f"{stage}/"): array
            for key, array in arrays.items()
            if key.startswith(f"{stage}/")
        }
        try:
            found[stage] = HEADS[f"{stage}.{kind}"].from_state(HeadState(own, settings))
        except ArtifactError as error:
            raise ArtifactError(error.message, where=where, remedy=error.remedy or _REMEDY) from error
        except Exception as error:
            raise _unreadable(error, where) from error
    return found


def _name_of(stage: Stage, head: HeadPort[Any]) -> str:
    """The name under which the class of a head is registered; only what is registered can be stored."""
    for name in HEADS:
        # What another package offers may be broken; that is told where it is asked for.
        with contextlib.suppress(ExtensionError):
            if name.startswith(f"{stage}.") and HEADS[name] is type(head):
                return name
    raise ArtifactError(
        f"The head of the stage {stage!r} ({type(head).__name__}) is of no registered kind",
        remedy="Register its class with @head(stage, kind), or unbind it.",
    )


def _unreadable(error: Exception, where: str) -> ArtifactError:
    return ArtifactError(f"The head cannot be read: {format_error(error)}", where=where, remedy=_REMEDY)
