"""Programs in MLflow's registry: published as versions of a name, of which an alias serves one. Nothing is pickled.

A version is the folder of the program as it is, among the artefacts of a run. ``load("models:/NAME@ALIAS")`` brings the
version that the alias stands at; who had it before is kept with the name, so that an alias can be rolled back.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any, NamedTuple

from jazzmine_dspy.artifacts.files import find
from jazzmine_dspy.artifacts.manifest import read_checked
from jazzmine_dspy.artifacts.store import (
    STORE,
    check_alias,
    check_name,
    client_of,
    experiment_of,
    store_uri,
    versions_of,
)
from jazzmine_dspy.models.errors import ArtifactError

CHAMPION = "champion"
"""The alias that serves, unless another is named."""

_FOLDER = "program"


class Published(NamedTuple):
    """A version of a name in the registry.

    Args:
        name: Of the registered program.
        version: Counted from 1.
        aliases: That stand at it.
        said: The first line of its report.
    """

    name: str
    version: int
    aliases: tuple[str, ...] = ()
    said: str = ""

    @property
    def address(self) -> str:
        """What :func:`jazzmine_dspy.load` takes."""
        return f"models:/{self.name}/{self.version}"


def publish(program: str | Path, name: str, *, alias: str | None = None, uri: str | None = None) -> Published:
    """Put a compiled program into the registry, as the next version of a name.

    Args:
        program: Folder or name of the program; it is checked first, as loading does.
        name: Under which it is registered; made where nobody has it.
        alias: Is moved to the new version; None moves none.
        uri: Of MLflow's server or store; None takes ``MLFLOW_TRACKING_URI``, else ``.jazzmine/mlflow``.

    Raises:
        ArtifactError: the program is damaged, MLflow takes no such name or alias, or it cannot be reached.
    """
    check_name(name)
    if alias is not None:
        check_alias(alias)
    folder = find(program)
    manifest, _ = read_checked(folder)
    with client_of(uri, name) as client:
        from mlflow.exceptions import MlflowException

        with contextlib.suppress(MlflowException):  # it is there
            client.create_registered_model(name)
        ours = f"sqlite:///{STORE.resolve() / 'mlflow.db'}"
        place = (STORE.resolve() / "artifacts").as_uri() if store_uri(uri) == ours else None
        experiment = experiment_of(client, manifest["name"], place)
        tags = {"kind": "publication", "jazzmine.program": manifest["sha256"]}
        run = client.create_run(experiment, run_name=f"publish {name}", tags=tags)
        client.log_artifacts(run.info.run_id, str(folder), _FOLDER)
        client.set_terminated(run.info.run_id)
        made = client.create_model_version(
            name,
            f"{run.info.artifact_uri}/{_FOLDER}",
            run.info.run_id,
            tags={"jazzmine.program": manifest["sha256"], "jazzmine.code": manifest["code"]},
            description=str(manifest.get("first_line") or ""),
        )
        version = int(made.version)
    if alias is not None:
        return promote(name, version, alias=alias, uri=uri)
    return Published(name, version, (), str(manifest.get("first_line") or ""))


def promote(name: str, version: int, *, alias: str = CHAMPION, uri: str | None = None) -> Published:
    """Let an alias stand at a version; :func:`roll_back` undoes it.

    Raises:
        ArtifactError: there is no such version, or MLflow cannot be reached.
    """
    check_name(name)
    check_alias(alias)
    with client_of(uri, f"{name}/{version}") as client:
        client.get_model_version(name, str(version))
        before, past = _history(client, name, alias)
        course = [each for each in past if each != version]
        if before is not None and before != version:
            course = [*(each for each in course if each != before), before]
        # The course first: should the second step fail, the alias stands where it stood.
        client.set_registered_model_tag(name, _tag(alias), json.dumps([*course, version]))
        client.set_registered_model_alias(name, alias, str(version))
        return _published(client, name, version)


def roll_back(name: str, *, alias: str = CHAMPION, uri: str | None = None) -> Published:
    """Let an alias stand where it stood before it was last promoted.

    Raises:
        ArtifactError: it stood nowhere before, or MLflow cannot be reached.
    """
    check_name(name)
    check_alias(alias)
    with client_of(uri, f"{name}@{alias}") as client:
        now, course = _history(client, name, alias)
        before = course[: course.index(now)] if now in course else course
        if now is None or not before:
            raise ArtifactError(
                f"The alias {alias!r} stood nowhere before", where=f"models:/{name}@{alias}",
                remedy="Promote the version that it is to stand at.",
            )  # fmt: skip
        client.set_registered_model_alias(name, alias, str(before[-1]))
        client.set_registered_model_tag(name, _tag(alias), json.dumps(before))
        return _published(client, name, before[-1])


def published(name: str, *, uri: str | None = None) -> list[Published]:
    """All versions of a name, the newest first.

    Raises:
        ArtifactError: nobody has published it, or MLflow cannot be reached.
    """
    check_name(name)
    with client_of(uri, name) as client:
        client.get_registered_model(name)
        return [
            _published(client, name, version) for version in sorted(versions_of(client, name), reverse=True)
        ]


def _tag(alias: str) -> str:
    return f"jazzmine.course.{alias}"


def _history(client: Any, name: str, alias: str) -> tuple[int | None, list[int]]:
    """The version at which an alias stands, None if nowhere, and those at which it stood, the oldest first."""
    model = client.get_registered_model(name)
    current, past = model.aliases.get(alias), json.loads(model.tags.get(_tag(alias), "[]"))
    versions = [int(each) for each in past] if isinstance(past, list) else []
    return None if current is None else int(current), versions


def _published(client: Any, name: str, version: int) -> Published:
    held = client.get_model_version(name, str(version))
    aliases = client.get_registered_model(name).aliases.items()
    standing = sorted(alias for alias, at in aliases if int(at) == version)
    return Published(name, version, tuple(standing), str(held.description or ""))
