"""What a run leaves in MLflow: parameters, metrics, the artefact and the report. Never a pickled model."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jazzmine_dspy.models.errors import RecipeError, format_error

log = logging.getLogger("jazzmine_dspy")


class Tracker:
    """Logs one run.

    Args:
        uri: MLflow tracking URI; empty for a SQLite file in ``folder``.
        folder: Where the default store and its artefacts are.
        experiment: Name of the experiment.

    Raises:
        RecipeError: MLflow is not installed, or its store cannot be opened.
    """

    def __init__(self, uri: str, folder: Path, experiment: str) -> None:
        try:
            import mlflow
        except ImportError as error:
            raise RecipeError(
                "MLflow is not installed", where="tracking",
                remedy="Install the extra 'optimize', or set tracking = 'none'.",
            ) from error  # fmt: skip
        folder = folder.resolve()
        # It would tell of the tables that it makes, in the middle of the run's own lines.
        talkative = logging.getLogger("mlflow.store.db.utils")
        level = talkative.level
        talkative.setLevel(max(talkative.getEffectiveLevel(), logging.WARNING))
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.uri = uri or f"sqlite:///{folder / 'mlflow.db'}"
            self._client = mlflow.MlflowClient(tracking_uri=self.uri)
            found = self._client.get_experiment_by_name(experiment)
            place = None if uri else (folder / "artifacts").as_uri()
            experiment_id = (
                found.experiment_id if found else self._client.create_experiment(experiment, place)
            )
            self._run = self._client.create_run(experiment_id)
        except Exception as error:
            raise RecipeError(
                f"MLflow's store cannot be used: {format_error(error)}", where=f"tracking = {_shown(uri)!r}",
                remedy="Correct the URI, or set tracking = 'none'.",
            ) from error  # fmt: skip
        finally:
            talkative.setLevel(level)
        self.run_id: str = self._run.info.run_id

    def params(self, values: Mapping[str, Any]) -> None:
        """Log parameters, nested ones under dotted names."""
        for key, value in _flat(values).items():
            self._client.log_param(self.run_id, key, str(value)[:500])

    def metrics(self, values: Mapping[str, float]) -> None:
        """Log metrics; what is not finite is left out."""
        for key, value in values.items():
            if math.isfinite(value):
                # MLflow takes slashes, but neither @ nor brackets.
                self._client.log_metric(self.run_id, key, float(value))

    def folder(self, path: Path, name: str) -> None:
        """Log a folder's files."""
        self._client.log_artifacts(self.run_id, str(path), name)

    def close(self, status: str = "FINISHED") -> None:
        """End the run."""
        self._client.set_terminated(self.run_id, status)


def _shown(uri: str) -> str:
    """A URI without its user, password and query, which errors and logs must not show."""
    return re.sub(r"//.*@", "//", uri, flags=re.DOTALL).partition("?")[0]


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        flat |= _flat(value, f"{name}.") if isinstance(value, Mapping) else {name: value}
    return flat
