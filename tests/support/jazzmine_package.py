"""The working memory and the flows of the installed package ``jazzmine``, without the rest of it.

``import jazzmine`` needs PyTorch, AWS and database clients, none of which these use. Here its
packages are entered as namespaces, so that their ``__init__`` does not run; the modules below them are the
installed ones. It is loaded once, and leaves ``jazzmine`` importable as those modules only.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType

VERSION = "0.1.42"
_PARENTS = ("jazzmine", "jazzmine.core")


def working_memory() -> ModuleType:
    """The module ``jazzmine.core.working_memory``.

    Raises:
        ModuleNotFoundError: the package is not installed.
    """
    for name in _PARENTS:
        if name not in sys.modules:
            spec = importlib.util.find_spec(name)
            if spec is None:
                raise ModuleNotFoundError("jazzmine is not installed: python tools/install.py dev", name=name)
            sys.modules[name] = importlib.util.module_from_spec(spec)
    return importlib.import_module("jazzmine.core.working_memory")


def flows() -> ModuleType:
    """The module ``jazzmine.core.flows.sync``; its ``BaseFlow`` and the classes of flows are in ``.flows``.

    Raises:
        ModuleNotFoundError: the package is not installed.
    """
    working_memory()
    name = "jazzmine.core.flows"
    if name not in sys.modules:
        spec = importlib.util.find_spec(name)
        if spec is None:
            raise ModuleNotFoundError("jazzmine is not installed: python tools/install.py dev", name=name)
        package = importlib.util.module_from_spec(spec)
        sys.modules[name] = package
        # Its own __init__ also brings in the selector, and with it all clients of language models.
        package.BaseFlow = importlib.import_module(f"{name}.flows").BaseFlow  # type: ignore[attr-defined]
    sync = importlib.import_module(f"{name}.sync")
    sync.flows = importlib.import_module(f"{name}.flows")  # type: ignore[attr-defined]
    return sync


def entered(name: str) -> ModuleType:
    """A module below ``jazzmine.core`` whose packages are entered without their ``__init__``.

    Raises:
        ModuleNotFoundError: the package is not installed.
    """
    working_memory()
    parts = name.split(".")
    for parent in (".".join(parts[:end]) for end in range(3, len(parts))):
        if parent not in sys.modules:
            spec = importlib.util.find_spec(parent)
            if spec is None:
                raise ModuleNotFoundError(f"{parent} is not installed", name=parent)
            sys.modules[parent] = importlib.util.module_from_spec(spec)
    return importlib.import_module(name)
