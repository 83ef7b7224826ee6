"""Names, aliases and experiments of MLflow's registry, on a real store in SQLite."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy import FlowRegistry, TurnProgram, load, save
from jazzmine_dspy.artifacts import publish
from jazzmine_dspy.models.errors import ArtifactError
from jazzmine_dspy.optimize.tracking import Tracker

mlflow = pytest.importorskip("mlflow")

FLOWS = [
    {"name": "track_order", "description": "Tell where an order is."},
    {"name": "pay_bill", "description": "Pay a bill that is due."},
]


@pytest.fixture(scope="module")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty store of MLflow, whose tables take a second to create."""
    path = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    uri = f"sqlite:///{path}"
    empty = mlflow.MlflowClient(tracking_uri=uri, registry_uri=uri)
    assert list(empty.search_registered_models()) == []
    return path


@pytest.fixture
def folder(empty_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in a project whose store of MLflow is its own."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(empty_store, tmp_path / "mlflow.db")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    return save(TurnProgram(FlowRegistry(FLOWS, agent_id="shop")), tmp_path / "orders", name="orders")


@pytest.fixture
def client(folder: Path) -> Any:
    uri = f"sqlite:///{folder.parent / 'mlflow.db'}"
    return mlflow.MlflowClient(tracking_uri=uri, registry_uri=uri)


@pytest.mark.row("A6")
@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("models:/", "The address names no program"),
        ("models:/@champion", "The address names no program"),
        ("models:/x", "The address names neither a version nor an alias"),
        ("models:/x/", "The address names neither a version nor an alias"),
        ("models:/x@", "The address names neither a version nor an alias"),
        (
            "models:/x/Production",
            "'Production' is not a version; a name takes no '/', and stages are not supported",
        ),
        ("models:/x/y@z", "'y@z' is not a version; a name takes no '/', and stages are not supported"),
    ],
)
def test_an_incomplete_address_is_refused_with_what_it_lacks(address: str, problem: str) -> None:
    with pytest.raises(ArtifactError) as refused:
        load(address)
    assert (refused.value.message, refused.value.where) == (problem, address)
    assert "models:/NAME@champion" in str(refused.value.remedy)


@pytest.mark.row("A6")
@pytest.mark.parametrize("address", ["models:/support/latest", "models:/support@latest", "models:/support/3"])
def test_latest_is_the_newest_version(folder: Path, address: str) -> None:
    publish(folder, "support", alias="champion")
    publish(folder, "support")
    save(TurnProgram(FlowRegistry(FLOWS[:1], agent_id="shop")), folder.parent / "fewer")
    publish(folder.parent / "fewer", "support")
    assert list(load(address).registry) == ["track_order"]
    assert len(list(load("models:/support@champion").registry)) == 2


@pytest.mark.row("A6")
def test_an_alias_is_moved_by_publishing_and_by_the_client_of_mlflow(folder: Path, client: Any) -> None:
    first = publish(folder, "support", alias="champion")
    assert (first.version, first.alias, publish(folder, "support").alias) == (1, "champion", None)
    assert client.get_model_version_by_alias("support", "champion").version == 1
    save(TurnProgram(FlowRegistry(FLOWS[:1], agent_id="shop")), folder.parent / "fewer")
    assert publish(folder.parent / "fewer", "support", alias="champion").version == 3
    assert list(load("models:/support@champion").registry) == ["track_order"]
    client.set_registered_model_alias("support", "champion", "1")
    assert len(list(load("models:/support@champion").registry)) == 2


@pytest.mark.row("A6")
def test_a_name_with_an_apostrophe_has_a_newest_version(folder: Path) -> None:
    publish(folder, "anna's")
    assert publish(folder, "anna's").address == "models:/anna's/2"
    assert load("models:/anna's/latest").registry


@pytest.mark.row("A6")
@pytest.mark.parametrize(
    "address",
    [
        "models:/nobody/latest",
        "models:/support/9",
    ],
)
def test_an_address_that_leads_nowhere_is_refused(folder: Path, address: str) -> None:
    publish(folder, "support")
    with pytest.raises(ArtifactError, match=r"MLflow returned no program.*Check name and version"):
        load(address)


@pytest.mark.row("A6")
@pytest.mark.parametrize("name", ["team/support", "team:support", " "])
def test_a_name_that_mlflow_refuses_is_refused_first(folder: Path, client: Any, name: str) -> None:
    with pytest.raises(ArtifactError, match=r"takes no '/' or ':' in a name.*Choose a name such as"):
        publish(folder, name)
    assert client.get_experiment_by_name("orders") is None


@pytest.mark.row("A6")
@pytest.mark.parametrize("alias", ["latest", "Latest", "v2", "a b", ""])
def test_an_alias_that_mlflow_refuses_is_refused_before_anything_is_published(
    folder: Path, client: Any, alias: str
) -> None:
    with pytest.raises(ArtifactError, match=r"takes no alias.*'champion'"):
        publish(folder, "support", alias=alias)
    assert client.search_registered_models() == []


@pytest.mark.row("A6")
def test_publishing_restores_a_deleted_experiment(
    folder: Path, client: Any, caplog: pytest.LogCaptureFixture
) -> None:
    client.delete_experiment(client.create_experiment("orders"))
    with caplog.at_level(logging.WARNING, "jazzmine_dspy"):
        assert publish(folder, "support").version == 1
    assert client.get_experiment_by_name("orders").lifecycle_stage == "active"
    assert "experiment 'orders' was deleted; it is restored" in caplog.text


@pytest.mark.row("O7")
def test_tracking_restores_a_deleted_experiment(folder: Path, client: Any) -> None:
    client.delete_experiment(client.create_experiment("orders"))
    notes: list[str] = []
    tracker = Tracker(f"sqlite:///{folder.parent / 'mlflow.db'}", folder.parent, "orders", notes.append)
    tracker.metrics({"right": 0.5})
    tracker.close()
    assert tracker.lost == ""
    assert client.get_run(tracker.run_id).data.metrics == {"right": 0.5}
    assert notes == ["MLflow's experiment 'orders' was deleted; it is restored for this run"]
