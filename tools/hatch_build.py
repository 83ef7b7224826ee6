"""Puts the shipped program, dataset and recipes into the wheel, those of them that exist.

A project made by `jazzmine-dspy init` starts from them, and `load("support")` finds the program without a
checkout. An editable install reads the folders where they lie.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SHIPPED = {
    "optimize/programs/support": "jazzmine_dspy/_programs/support",
    "datasets/support": "jazzmine_dspy/_project/datasets/support",
    "optimize/recipes": "jazzmine_dspy/_project/optimize/recipes",
}


class ShippedFolders(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        for source, target in SHIPPED.items():
            folder = Path(self.root) / source
            for path in sorted(folder.rglob("*")):
                # Hidden files are a machine's own, such as the log of opened test parts; reports are not read.
                inside = path.relative_to(folder)
                if path.is_file() and not any(
                    part.startswith(".") or part == "report" for part in inside.parts
                ):
                    build_data["force_include"][str(path)] = f"{target}/{inside.as_posix()}"
