"""Opens the engine that a place asks for: a server, or an embedded one."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from jazzmine_dspy.memory.errors import MissingExtraError
from jazzmine_dspy.memory.procedural.engine import Engine
from jazzmine_dspy.models.errors import InputError

if TYPE_CHECKING:
    import ssl


def open_engine(
    where: str | os.PathLike[str],
    engine: str = "auto",
    *,
    api_key: str | None = None,
    timeout: float = 2.0,
    retries: int = 3,
    verify: bool | str | ssl.SSLContext = True,
) -> Engine:
    """Open a server by URL, or an embedded engine on a folder or in memory.

    Args:
        where: ``http(s)://HOST:PORT``; or a folder, which is created if it does not exist; or ``:memory:``.
        engine: Without a URL: ``edge``, ``local``, or ``auto``, which is the engine that created the folder. For a new
            one it is edge if installed (the extra ``local``), since it is far quicker; ``make bench`` measures both.
        api_key: Of the server.
        timeout: Seconds that a search on a server may take; a write may take ten times as long.
        retries: Further attempts on a server after one that failed.
        verify: Whether a server's certificate is checked; or a PEM file of authorities; or an SSL context.

    Raises:
        InputError: There is no such engine, or the URL or a number is invalid.
        MemoryUnavailableError: Another engine has the folder open, or it cannot be written.
        MissingExtraError: Edge is requested, or created the folder, and is not installed.

    Example:
        >>> engine = open_engine(":memory:", "local")
        >>> engine.where
        'Qdrant embedded, :memory:'
        >>> engine.close()
    """
    path = os.fspath(where)
    if engine not in ("auto", "edge", "local"):
        raise InputError(f"There is no embedded engine {engine!r}", remedy="Choose auto, edge or local.")
    if "://" in path:
        from jazzmine_dspy.memory.procedural.qdrant_engine import open_server

        return open_server(path, api_key=api_key, timeout=timeout, retries=retries, verify=verify)
    is_installed = find_spec("qdrant_edge") is not None
    if engine == "auto":
        is_edge = any(Path(path).glob("*/edge_config.json"))
        is_local = (Path(path) / "meta.json").exists()
        engine = "edge" if is_edge or (is_installed and not is_local) else "local"
    if engine == "local":
        from jazzmine_dspy.memory.procedural.qdrant_engine import open_local

        return open_local(path)
    if not is_installed:
        raise MissingExtraError(
            "The edge engine needs the package qdrant-edge-py, which is not installed",
            where=path,
            remedy="Run: pip install 'jazzmine-dspy[local]'.",
        )
    from jazzmine_dspy.memory.procedural.edge import EdgeEngine

    return EdgeEngine(path)
