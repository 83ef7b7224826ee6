"""Where a program is, and its files: only regular ones, inside its folder, of a size that can be read."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable
from importlib import resources
from pathlib import Path

from jazzmine_dspy.models.errors import ArtifactError

MANIFEST = "manifest.json"
_MEGABYTE = 2**20
_LIMITS = {
    MANIFEST: 16 * _MEGABYTE,
    "program.json": 64 * _MEGABYTE,
    "policy.json": 16 * _MEGABYTE,
    "flows.yaml": 64 * _MEGABYTE,
    "examples.jsonl": 512 * _MEGABYTE,
    "heads.safetensors": 2048 * _MEGABYTE,
    "deciders.safetensors": 2048 * _MEGABYTE,
}
"""The files that an artefact may have, and how large each may be."""

_FLAGS = os.O_RDONLY
for _flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"):  # where the system has them
    _FLAGS |= getattr(os, _flag, 0)

AGAIN = "Compile the program again with 'jazzmine-dspy optimize', or restore the folder."


def aside(folder: Path) -> str:
    """How the name of a folder begins to which a save moves the program that it replaces, for a moment."""
    return f".{folder.name}-old-"


def is_replaced(folder: Path) -> bool:
    """Whether a program is being replaced there just now, or a save was broken off at that."""
    try:
        return any(path.name.startswith(aside(folder)) for path in folder.parent.iterdir())
    except OSError:
        return False


def check_names(names: Iterable[object], where: Path) -> None:
    """Refuse names that no artefact has: a manifest names files of its folder, and nothing else.

    Raises:
        ArtifactError: a name is none of those that :func:`jazzmine_dspy.save` writes.
    """
    for name in names:
        if not isinstance(name, str) or name not in _LIMITS or name == MANIFEST:
            raise ArtifactError(
                f"The manifest names {str(name)[:100]!r}, which is no file of a program",
                where=str(where),
                remedy=AGAIN,
            )


def read_file(folder: Path, name: str) -> bytes:
    """The content of a file of an artefact.

    The file must be regular and lie in the folder, also where links lead to it; nothing that could block or never end
    is read.

    Raises:
        ArtifactError: it is missing, is none, is too large, or cannot be read.
    """
    path, limit = folder / name, _LIMITS[name]
    try:
        place = path.resolve(strict=True)
        if not place.is_relative_to(folder.resolve()):
            raise ArtifactError(
                "The file is a link out of the program's folder", where=str(path), remedy=AGAIN
            )
        # Not blocking: a FIFO would wait for whoever writes into it before anything about it can be asked.
        handle = os.open(place, _FLAGS)
        with os.fdopen(handle, "rb") as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise ArtifactError("This is no regular file", where=str(path), remedy=AGAIN)
            data = stream.read(limit + 1)
    except FileNotFoundError as error:
        raise ArtifactError("A file is missing", where=str(path), remedy=AGAIN) from error
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: links that go round in a circle
        problem = getattr(error, "strerror", None) or "its name leads to no file"
        raise ArtifactError(f"A file cannot be read: {problem}", where=str(path), remedy=AGAIN) from error
    if len(data) > limit:
        raise ArtifactError(f"The file is larger than {limit:,} bytes", where=str(path), remedy=AGAIN)
    return data


def find(name: str | Path) -> Path:
    """The folder of a program: a path, a project's ``optimize/programs/NAME``, a packaged one, or MLflow's.

    Raises:
        ArtifactError: nowhere found.
    """
    text = str(name)
    if text.startswith(("models:/", "runs:/", "mlflow-artifacts:/")):
        from jazzmine_dspy.artifacts.store import download

        return download(text)
    packaged = Path(str(resources.files("jazzmine_dspy"))) / "_programs" / text
    source = Path(str(resources.files("jazzmine_dspy"))).parent / "optimize" / "programs" / text
    places = [Path(name), Path("optimize/programs") / text, packaged, source]
    for place in places:
        with contextlib.suppress(OSError, ValueError):  # no path at all: too long, or with a NUL
            # One that is just being replaced is there again in a moment; reading it waits for that.
            if (place / MANIFEST).is_file() or (place.name and is_replaced(place)):
                return place
    remedy = "Name a folder with a manifest.json; 'jazzmine-dspy optimize RECIPE' makes one."
    if text.endswith(".json"):
        remedy += " What module.save('x.json') wrote is read by TurnProgram(flows).load('x.json')."
    raise ArtifactError(
        f"No program {text[:200]!r}",
        where=", ".join(str(place)[:200] for place in places[:2]),
        remedy=remedy,
    )
