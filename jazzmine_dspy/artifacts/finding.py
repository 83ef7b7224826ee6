"""Where a program is: a path, a project's, a packaged one, or MLflow's."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from jazzmine_dspy.models.errors import ArtifactError


def find(name: str | Path) -> Path:
    """The folder of a program: a path, a project's ``optimize/programs/NAME``, a packaged one, or MLflow's.

    Raises:
        ArtifactError: nowhere found.
    """
    text = str(name)
    if text.startswith(("models:/", "runs:/", "mlflow-artifacts:/")):
        from mlflow.artifacts import download_artifacts

        return Path(download_artifacts(artifact_uri=text))
    packaged = Path(str(resources.files("jazzmine_dspy"))) / "_programs" / text
    source = Path(str(resources.files("jazzmine_dspy"))).parent / "optimize" / "programs" / text
    places = [Path(name), Path("optimize/programs") / text, packaged, source]
    for place in places:
        if (place / "manifest.json").is_file():
            return place
    raise ArtifactError(
        f"No program {text!r}", where=", ".join(str(place) for place in places[:2]),
        remedy="Name a folder with a manifest.json; 'jazzmine-dspy optimize RECIPE' makes one.",
    )  # fmt: skip
