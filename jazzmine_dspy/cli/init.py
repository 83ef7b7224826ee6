"""``init``: a project that runs, with a small dataset to replace."""

from __future__ import annotations

import json
import re
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from jazzmine_dspy.cli._output import AsJson, output
from jazzmine_dspy.cli._program_options import APIBase

_PLACES = {
    "README.md": "README.md",
    "recipe.toml": "optimize/recipes/{name}.toml",
    "flows.yaml": "datasets/{name}/flows.yaml",
    "conversations.jsonl": "datasets/{name}/conversations.jsonl",
    "splits.json": "datasets/{name}/splits.json",
    "card.md": "datasets/{name}/card.md",
    "signatures.md": "signatures/README.md",
    "eval.md": "eval/README.md",
}


def init(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the project: letters, digits, dots, dashes.")
    ],
    directory: Annotated[
        Path | None,
        typer.Option("--dir", metavar="DIR", help="Folder of the project (default: a new folder NAME)."),
    ] = None,
    lm: Annotated[
        str, typer.Option(help="Language model that the recipe compiles with, such as openai/gpt-4o-mini.")
    ] = "none",
    api_base: APIBase = None,
    _json: AsJson = False,
) -> None:
    """Make a project folder: starter dataset, recipe, and what to do next. No file is ever overwritten."""
    from jazzmine_dspy.models.errors import InputError

    if not re.fullmatch(r"[A-Za-z0-9][\w.-]*", name, re.ASCII):
        remedy = "Use letters, digits, dots, dashes and underscores, a letter or digit first."
        raise InputError(f"{name!r} is not a valid name for a project", where="NAME", remedy=remedy)
    folder = directory if directory is not None else Path(name)
    starter = resources.files("jazzmine_dspy.cli") / "_starter"
    address = "" if api_base is None else f"lm_settings = {{ api_base = {json.dumps(api_base)} }}\n"
    values = {"@NAME@": name, "@LM@": json.dumps(lm), "@SETTINGS@": address}
    files = {
        folder / place.format(name=name): re.sub(
            "|".join(values), lambda mark: values[mark[0]], (starter / source).read_text("utf-8")
        )
        for source, place in _PLACES.items()
    }
    if taken := [str(path) for path in files if path.exists()]:
        remedy = "Choose another name or --dir, or move these files away."
        raise InputError("Files already exist", where=", ".join(taken), remedy=remedy)
    for path, content in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        # Exclusive: a file that has appeared meanwhile is not overwritten either.
        with path.open("x", encoding="utf-8", newline="\n") as stream:
            stream.write(content)
    steps = [
        f"cd {folder}",
        f"jazzmine-dspy flows check datasets/{name}/flows.yaml",
        f"jazzmine-dspy datasets import csv labels.csv --out datasets/{name} --replace  # your labels",
        f"jazzmine-dspy datasets split datasets/{name}  # only after putting in a conversations.jsonl of your own",
        f"jazzmine-dspy datasets check datasets/{name}",
        *([f"jazzmine-dspy doctor --lm {lm}"] if lm != "none" else []),
        f"jazzmine-dspy optimize optimize/recipes/{name}.toml"
        + ("  # or with --lm MODEL" if lm == "none" else ""),
        f"jazzmine-dspy chat optimize/programs/{name}",
    ]
    output().show(
        *(f"made: {path}" for path in files),
        "",
        "next:",
        *(f"  {step}" for step in steps),
        document={"project": str(folder), "files": [str(path) for path in files], "next": steps},
    )
