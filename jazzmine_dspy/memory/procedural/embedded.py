"""Which engine of this process keeps a folder: qdrant-edge, or the embedded mode of qdrant-client."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

from jazzmine_dspy.memory.errors import MissingExtraError
from jazzmine_dspy.memory.procedural.engine import Engine
from jazzmine_dspy.models.errors import InputError


def open_embedded(path: str | os.PathLike[str], engine: str = "auto") -> Engine:
    """An engine in this process, on a folder or in ``:memory:``.

    Args:
        path: The folder, made where it is absent, or ``:memory:``.
        engine: ``edge``, ``local``, or ``auto``: what the folder was made with; for a new one edge where it is
            installed (the extra ``local``), since it is far quicker; ``make bench`` measures both.

    Raises:
        InputError: there is no such engine.
        MemoryUnavailableError: another engine has the folder open; or it can't be written.
        MissingExtraError: edge is asked for, or made the folder, and is not installed.

    Example:
        >>> engine = open_embedded(":memory:", "local")
        >>> engine.name, engine.collections()
        ('local', [])
        >>> engine.close()
    """
    if engine not in ("auto", "edge", "local"):
        raise InputError(f"There is no embedded engine {engine!r}", remedy="Choose auto, edge or local.")
    installed = find_spec("qdrant_edge") is not None
    if engine == "auto":
        folder = Path(path)
        if str(path) != ":memory:" and any(folder.glob("edge-*/layout.json")):
            engine = "edge"
        elif str(path) != ":memory:" and (folder / "meta.json").exists():
            engine = "local"
        else:
            engine = "edge" if installed else "local"
    if engine == "local":
        from jazzmine_dspy.memory.procedural._local import LocalEngine

        return LocalEngine(path)
    if not installed:
        raise MissingExtraError(
            "The edge engine needs the package qdrant-edge-py, which is not installed",
            where=str(path),
            remedy="Run: pip install 'jazzmine-dspy[local]'.",
        )
    from jazzmine_dspy.memory.procedural._edge import EdgeEngine

    return EdgeEngine(path)
