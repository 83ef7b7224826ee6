"""Where programs are kept: in folders that are found by name, and in MLflow's registry. Nothing is pickled.

A program is published as a version of a name, of which an alias serves one. A version is the folder of the program as
it is, among the artefacts of a run. ``load("models:/NAME@ALIAS")`` brings the version that the alias stands at.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from jazzmine_dspy.artifacts.manifest import MANIFEST, read_checked, unreplaced
from jazzmine_dspy.models.base import log
from jazzmine_dspy.models.errors import ArtifactError, format_error

STORE = Path(".jazzmine/mlflow")
"""Where runs are kept, if no server is named."""


def find(name: str | Path) -> Path:
    """The folder of a program: a path, a project's ``optimize/programs/NAME``, a packaged one, or MLflow's.

    Raises:
        ArtifactError: nowhere found.
    """
    text = str(name)
    if text.startswith(("models:/", "runs:/", "mlflow-artifacts:/")):
        return download(text)
    packaged = Path(str(resources.files("jazzmine_dspy"))) / "_programs" / text
    source = Path(str(resources.files("jazzmine_dspy"))).parent / "optimize" / "programs" / text
    places = [Path(name), Path("optimize/programs") / text, packaged, source]
    for place in places:
        # OSError and ValueError: no path at all, too long, or with a NUL
        with contextlib.suppress(OSError, ValueError), unreplaced(place):
            if (place / MANIFEST).is_file():
                return place
    remedy = "Name a folder with a manifest.json; 'jazzmine-dspy optimize RECIPE' makes one."
    if text.endswith(".json"):
        remedy += " What module.save('x.json') wrote is read by TurnProgram(flows).load('x.json')."
    raise ArtifactError(
        f"No program {text[:200]!r}",
        where=", ".join(str(place)[:200] for place in places[:2]),
        remedy=remedy,
    )


def download(address: str) -> Path:
    """The folder behind ``models:/…``, ``runs:/…`` or ``mlflow-artifacts:/…``: brought here, or where it is kept.

    Raises:
        ArtifactError: the address is not complete, MLflow has nothing there, or cannot be reached.
    """
    if address.startswith("models:/"):
        _check_address(address)
    with _client_of(None, address) as client:
        from mlflow.artifacts import download_artifacts

        source, uri = address, _store_uri()
        if address.startswith("models:/"):
            from mlflow.store.artifact.utils.models import get_model_name_and_version

            # With a registry's own address, `download_artifacts` still asks the registry of MLflow's settings.
            name, version = get_model_name_and_version(client, address)  # type: ignore[no-untyped-call]
            source = client.get_model_version_download_uri(name, version)
        # Where the files are on this machine, their own place is answered, and nothing is copied.
        place = None if source.startswith(("file:", "/")) else tempfile.mkdtemp(prefix="jazzmine-")
        return Path(download_artifacts(artifact_uri=source, dst_path=place, tracking_uri=uri))


def _check_address(address: str) -> None:
    """Refuse an address of the registry that names no version of a program."""
    name, sign, version = re.split("([@/])|$", address.removeprefix("models:/"), maxsplit=1)
    if not name.strip():
        problem = "The address names no program"
    elif not (version or "").strip():
        problem = "The address names neither a version nor an alias"
    elif sign == "/" and not re.fullmatch(r"\d+|latest", version, re.IGNORECASE):
        problem = f"{version[:200]!r} is not a version; a name takes no '/', and stages are not supported"
    else:
        return
    raise ArtifactError(
        problem, where=address[:200],
        remedy="Name a version or an alias: models:/NAME/3, models:/NAME/latest or models:/NAME@champion.",
    )  # fmt: skip


def _store_uri(uri: str | None = None) -> str:
    """Of the server or store that is meant: the named one, MLflow's own setting, or the project's."""
    import mlflow

    if uri or os.environ.get("MLFLOW_TRACKING_URI") or mlflow.is_tracking_uri_set():  # type: ignore[no-untyped-call]
        return uri or str(mlflow.get_tracking_uri())
    return f"sqlite:///{STORE.resolve() / 'mlflow.db'}"


def _check_names(name: str, alias: str | None) -> None:
    """Refuse, before anything is published, a name or an alias that MLflow's registry refuses.

    Raises:
        ArtifactError: MLflow takes no such name or alias.
    """
    if not name.strip() or "/" in name or ":" in name:
        raise ArtifactError(
            f"MLflow's registry takes no '/' or ':' in a name, and no empty one: {name[:200]!r}", where="name",
            remedy="Choose a name such as 'team-support'.",
        )  # fmt: skip
    if alias is not None and not re.fullmatch(r"(?!(?:latest|v\d+)$)[\w-]+", alias, re.IGNORECASE):
        raise ArtifactError(
            f"MLflow's registry takes no alias {alias[:200]!r}: only letters, digits, '_' and '-', and neither "
            "'latest' nor what looks like a version",
            where="alias",
            remedy="Choose another one, such as 'champion'.",
        )


def experiment_of(
    client: Any, name: str, place: str | None, note: Callable[[str], None] = log.warning
) -> str:
    """The id of an experiment, which is made if nobody has it and restored if it was deleted.

    MLflow keeps the name of a deleted experiment, so that no other one can be made under it.

    Args:
        client: MLflow's client.
        name: Of the experiment.
        place: URI for the artefacts of a new one; None leaves it to the server.
        note: Receives a line if the experiment is restored.
    """
    if (experiment := client.get_experiment_by_name(name)) is None:
        return str(client.create_experiment(name, place))
    if experiment.lifecycle_stage == "deleted":
        client.restore_experiment(experiment.experiment_id)
        note(f"MLflow's experiment {name!r} was deleted; it is restored for this run")
    return str(experiment.experiment_id)


@contextlib.contextmanager
def _client_of(uri: str | None, what: str) -> Iterator[Any]:
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
    if (chosen := _store_uri(uri)) == f"sqlite:///{STORE.resolve() / 'mlflow.db'}":
        STORE.mkdir(parents=True, exist_ok=True)
    try:
        yield mlflow.MlflowClient(tracking_uri=chosen, registry_uri=chosen)
    except ArtifactError:
        raise
    except Exception as error:  # MLflow's stores and their clients raise types of their own
        raise ArtifactError(
            f"MLflow returned no program: {format_error(error)}", where=what[:200],
            remedy="Check name and version, and MLFLOW_TRACKING_URI for the server that has it.",
        ) from error  # fmt: skip


_FOLDER = "program"


class Published(NamedTuple):
    """A version of a name in the registry.

    Args:
        name: The name of the registered program.
        version: The version, counted from 1.
        alias: The alias that was moved to the version; None if none was.
        first_line: The first line of the program's report.
    """

    name: str
    version: int
    alias: str | None = None
    first_line: str = ""

    @property
    def address(self) -> str:
        """The address that :func:`jazzmine_dspy.load` takes."""
        return f"models:/{self.name}/{self.version}"


def publish(program: str | Path, name: str, *, alias: str | None = None, uri: str | None = None) -> Published:
    """Publish a compiled program in the registry, as the next version of a name.

    Args:
        program: Folder or name of the program; it is checked first, as loading does.
        name: Under which it is registered; made where nobody has it.
        alias: Is moved to the new version; None moves none.
        uri: Of MLflow's server or store; None takes ``MLFLOW_TRACKING_URI``, else ``.jazzmine/mlflow``.

    Raises:
        ArtifactError: the program is damaged, MLflow takes no such name or alias, or it cannot be reached.
    """
    _check_names(name, alias)
    folder = find(program)
    manifest, _ = read_checked(folder)
    first_line = str(manifest.get("first_line") or "")
    with _client_of(uri, name) as client:
        from mlflow.exceptions import MlflowException

        with contextlib.suppress(MlflowException):  # it is there
            client.create_registered_model(name)
        ours = f"sqlite:///{STORE.resolve() / 'mlflow.db'}"
        place = (STORE.resolve() / "artifacts").as_uri() if _store_uri(uri) == ours else None
        experiment = experiment_of(client, manifest["name"], place)
        run = client.create_run(
            experiment,
            run_name=f"publish {name}",
            tags={"kind": "publication", "jazzmine.program": manifest["sha256"]},
        )
        client.log_artifacts(run.info.run_id, str(folder), _FOLDER)
        client.set_terminated(run.info.run_id)
        made = client.create_model_version(
            name,
            f"{run.info.artifact_uri}/{_FOLDER}",
            run.info.run_id,
            tags={"jazzmine.program": manifest["sha256"], "jazzmine.code": manifest["code"]},
            description=first_line,
        )
        if alias is not None:
            client.set_registered_model_alias(name, alias, made.version)
    return Published(name, int(made.version), alias, first_line)
