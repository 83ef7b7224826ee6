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
        return _downloaded(text)
    packaged = Path(str(resources.files("jazzmine_dspy"))) / "_programs" / text
    source = Path(str(resources.files("jazzmine_dspy"))).parent / "optimize" / "programs" / text
    places = [Path(name), Path("optimize/programs") / text, packaged, source]
    for place in places:
        with contextlib.suppress(OSError, ValueError):  # no path at all: too long, or with a NUL
            # One that is just being replaced is there again in a moment; reading it waits for that.
            if (place / MANIFEST).is_file() or (place.name and is_replaced(place)):
                return place
    raise ArtifactError(
        f"No program {text[:200]!r}", where=", ".join(str(place)[:200] for place in places[:2]),
        remedy="Name a folder with a manifest.json; 'jazzmine-dspy optimize RECIPE' makes one.",
    )  # fmt: skip


def _downloaded(address: str) -> Path:
    """The folder that MLflow brings for an address.

    Raises:
        ArtifactError: MLflow has nothing there, or cannot be reached.
    """
    from mlflow.artifacts import download_artifacts

    try:
        return Path(download_artifacts(artifact_uri=address))
    except Exception as error:  # MLflow's stores and their clients raise types of their own
        raise ArtifactError(
            f"MLflow gives no program ({type(error).__name__})",
            where=address[:200],
            remedy="Check the address, and MLFLOW_TRACKING_URI for the server that has it.",
        ) from error
