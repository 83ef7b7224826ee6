"""Where a program is: a path, a project's, a packaged one, or MLflow's."""

from __future__ import annotations

import contextlib
from importlib import resources
from pathlib import Path

from jazzmine_dspy.artifacts.files import MANIFEST, is_replaced
from jazzmine_dspy.models.errors import ArtifactError


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
