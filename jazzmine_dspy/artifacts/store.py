"""MLflow's store and registry: which one is meant, its client, and what it holds brought here."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jazzmine_dspy.models.errors import ArtifactError, format_error

STORE = Path(".jazzmine/mlflow")
"""Where runs are kept, if no server is named."""


def download(address: str) -> Path:
    """The folder behind ``models:/…``, ``runs:/…`` or ``mlflow-artifacts:/…``: brought here, or where it is kept.

    Raises:
        ArtifactError: MLflow has nothing there, or cannot be reached.
    """
    with client_of(None, address) as client:
        from mlflow.artifacts import download_artifacts

        source, uri = address, store_uri()
        if address.startswith("models:/"):
            name, alias, version = _named(address.removeprefix("models:/"))
            held = client.get_model_version_by_alias(name, alias) if alias else None
            source = client.get_model_version_download_uri(name, held.version if held else version)
        # Where the files are on this machine, their own place is answered, and nothing is copied.
        place = None if source.startswith(("file:", "/")) else tempfile.mkdtemp(prefix="jazzmine-")
        return Path(download_artifacts(artifact_uri=source, dst_path=place, tracking_uri=uri))


def store_uri(uri: str | None = None) -> str:
    """Of the server or store that is meant: the named one, MLflow's own setting, or the project's."""
    import mlflow

    set_here: bool = mlflow.is_tracking_uri_set()  # type: ignore[no-untyped-call]
    if uri or os.environ.get("MLFLOW_TRACKING_URI") or set_here:
        return uri or str(mlflow.get_tracking_uri())
    return f"sqlite:///{STORE.resolve() / 'mlflow.db'}"


def _named(address: str) -> tuple[str, str, str]:
    name, _, alias = address.partition("@")
    if alias:
        return name, alias, ""
    name, _, version = address.partition("/")
    return name, "", version


@contextlib.contextmanager
def client_of(uri: str | None, what: str) -> Iterator[Any]:
    """MLflow's client; whatever it raises is told as a fault of the registry.

    Raises:
        ArtifactError: MLflow is not installed, has not what is asked for, or cannot be reached.
    """
    try:
        import mlflow
    except ImportError as error:
        raise ArtifactError(
            "MLflow is not installed", where=what[:200], remedy="Install the extra 'optimize'."
        ) from error
    chosen = store_uri(uri)
    if chosen == f"sqlite:///{STORE.resolve() / 'mlflow.db'}":
        STORE.mkdir(parents=True, exist_ok=True)
    try:
        yield mlflow.MlflowClient(tracking_uri=chosen, registry_uri=chosen)
    except ArtifactError:
        raise
    except Exception as error:  # MLflow's stores and their clients raise types of their own
        raise ArtifactError(
            f"MLflow gives no program: {format_error(error)}", where=what[:200],
            remedy="Check name and version, and MLFLOW_TRACKING_URI for the server that has it.",
        ) from error  # fmt: skip
