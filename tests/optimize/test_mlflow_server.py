"""A run against a real MLflow server: what stands there, programs published from it, and a server that dies."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from jazzmine_dspy import load
from jazzmine_dspy.artifacts import publish
from jazzmine_dspy.models.errors import ArtifactError

mlflow = pytest.importorskip("mlflow")


pytestmark = pytest.mark.slow

LITTLE: dict[str, Any] = {
    "demos": {"labeled": 2, "bootstrapped": 0, "candidates": 1}, "head": False, "recall": False,
    "acts": False,
}  # fmt: skip


class Server:
    """An MLflow server on loopback."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.uri = f"http://127.0.0.1:{port}"
        self.log = folder / "log"
        place = [
            f"--backend-store-uri=sqlite:///{folder / 'mlflow.db'}",
            f"--artifacts-destination={folder / 'kept'}",
        ]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "mlflow", "server", *place, "--host=127.0.0.1", f"--port={port}", "--workers=1"],
                stdout=log, stderr=log, cwd=folder, start_new_session=True,
                env=os.environ | {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
            )  # fmt: skip

    def wait(self) -> None:
        while True:
            assert self.process.poll() is None, self.log.read_text()
            try:
                urlopen(f"{self.uri}/health", timeout=30).close()
                return
            except (URLError, OSError):
                time.sleep(0.1)

    def kill(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    started = Server(tmp_path_factory.mktemp("mlflow") / "server")
    try:
        started.wait()
        yield started
    finally:
        started.kill()


@pytest.fixture(scope="module")
def tracked(server: Server, tmp_path_factory: pytest.TempPathFactory, runner: Any, scripts: Any) -> Any:
    run, recipe_of = runner
    recipe = recipe_of(scripts.LIBRARY, tracking=server.uri, **LITTLE)
    return run(tmp_path_factory.mktemp("tracked"), recipe, scripts.lm_of("taught"))


@pytest.fixture
def client(server: Server) -> Any:
    return mlflow.MlflowClient(tracking_uri=server.uri)


def runs_of(client: Any) -> tuple[Any, list[Any]]:
    """The run, and its children."""
    runs = client.search_runs([client.get_experiment_by_name("tiny").experiment_id])
    (parent,) = [each for each in runs if each.data.tags.get("kind") == "optimization"]
    return parent, [each for each in runs if each.data.tags.get("mlflow.parentRunId") == parent.info.run_id]


@pytest.mark.row("O7")
def test_a_server_holds_the_run_and_a_child_for_each_candidate(tracked: Any, client: Any) -> None:
    parent, children = runs_of(client)
    assert (parent.info.status, parent.data.params["seed"]) == ("FINISHED", "0")
    manifest = tracked.result.manifest
    candidates = [each for each in children if each.data.tags["kind"] == "candidate"]
    assert [each.info.run_name for each in reversed(candidates)] == [
        c["name"] for c in manifest["candidates"]
    ]
    for run, told in zip(reversed(candidates), manifest["candidates"], strict=True):
        assert run.info.status == "FINISHED"
        assert run.data.metrics["objective"] == pytest.approx(told["dev_a"])
        assert run.data.params["demonstrations.fused"] == str(told["demonstrations"]["fused"])
    programs = [each for each in children if each.data.tags["kind"] == "program"]
    assert sorted(each.data.params["ships"] for each in programs)[-1:] == ["True"]
    assert len(programs) == len(manifest["programs"])


@pytest.mark.row("O7")
def test_metrics_stand_there_with_their_bounds(tracked: Any, client: Any) -> None:
    parent, children = runs_of(client)
    (shipped,) = [each for each in children if each.info.run_name == "test: shipped"]
    # Under ten conversations nothing has bounds; the choice's one-sided bound is there always.
    value, low, high, _ = tracked.result.manifest["scores"]["shipped"]["commands_exact"]
    metrics = shipped.data.metrics
    found = [metrics.get(f"test/commands_exact{end}") for end in ("", "/low", "/high")]
    assert found == pytest.approx([value, low, high], abs=1e-4)
    assert parent.data.metrics["shipped/commands_exact"] == pytest.approx(value, abs=1e-4)


@pytest.mark.row("O7")
def test_the_data_and_the_report_are_named(tracked: Any, client: Any, tmp_path: Path) -> None:
    parent, _ = runs_of(client)
    used = {each.tags[0].value: each.dataset for each in parent.inputs.dataset_inputs}
    assert set(used) == {"train", "dev_a", "dev_b", "test"}
    assert len({data.digest for data in used.values()}) == 4
    kept = Path(client.download_artifacts(parent.info.run_id, "program", str(tmp_path)))
    assert (kept / "report" / "report.html").read_bytes() == (
        tracked.result.folder / "report" / "report.html"
    ).read_bytes()
    assert parent.data.tags["mlflow.note.content"].startswith(tracked.result.first_line)
    stored = [path for path in kept.rglob("*") if path.is_file()]
    assert {path.suffix for path in stored} <= {".json", ".yaml", ".jsonl", ".html", ".md", ".safetensors"}


@pytest.mark.row("O7")
def test_a_trace_shows_the_answer_with_its_stages_and_calls(tracked: Any, client: Any) -> None:
    parent, _ = runs_of(client)
    traces = client.search_traces(
        locations=[parent.info.experiment_id],
        filter_string=f"metadata.`mlflow.sourceRun` = '{parent.info.run_id}'",
    )
    asked = tracked.result.manifest["scores"]["shipped"]["commands_exact"][3]
    assert len(traces) == asked
    spans = [span for trace in traces for span in trace.data.spans]
    assert [span.name for span in spans] == ["turn"] * asked
    assert all(span.inputs["text"] and span.attributes["expected"] for span in spans)
    stages = [span.outputs["stages"] for span in spans]
    assert {name for each in stages for name in each} == {"enhance", "select", "understand"}
    calls = [call for each in stages for stage in each.values() for call in stage["calls"]]
    assert calls
    assert all(call["prompt_tokens"] > 0 for call in calls)


@pytest.mark.row("A6")
def test_versions_are_published_and_loaded_by_version_and_alias(
    tracked: Any, server: Server, client: Any, without: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.uri)
    first = publish(without.result.folder, "support", alias="champion")
    second = publish(tracked.result.folder, "support")
    assert (first.version, first.alias, second.version, second.alias) == (1, "champion", 2, None)
    prints = {1: load(without.result.folder).fingerprint, 2: load(tracked.result.folder).fingerprint}
    assert prints[1] != prints[2]
    assert load("models:/support@champion").fingerprint == prints[1]
    assert load(second.address).fingerprint == prints[2]

    client.set_registered_model_alias("support", "champion", "2")
    assert load("models:/support@champion").fingerprint == prints[2]
    assert publish(without.result.folder, "support", alias="champion").version == 3
    assert load("models:/support@champion").fingerprint == prints[1]
    for gone in ("models:/support@nobody", "models:/support/7", "models:/no-such-name@champion"):
        with pytest.raises(ArtifactError, match="MLflow returned no program"):
            load(gone)


@pytest.mark.row("A6")
def test_a_program_that_was_changed_is_not_published(
    server: Server, client: Any, without: Any, tmp_path: Path
) -> None:
    spoilt = Path(shutil.copytree(without.result.folder, tmp_path / "spoilt"))
    (spoilt / "policy.json").write_text("{}")
    with pytest.raises(ArtifactError, match="was changed"):
        publish(spoilt, "spoilt", uri=server.uri)
    assert client.search_registered_models("name = 'spoilt'") == []


@pytest.mark.row("O7")
def test_a_server_that_dies_in_mid_run_ends_the_tracking_and_not_the_run(
    tmp_path: Path, runner: Any, scripts: Any, tracked: Any, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last test of this file: the server is gone afterwards."""
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    run, recipe_of = runner
    lm = scripts.lm_of("taught")
    right, asked = lm.engine.answers, []

    def answer_and_kill(request: Any) -> Any:
        asked.append(request)
        if len(asked) == 3:
            server.kill()
        return right(request)

    lm.engine.answers = answer_and_kill
    ran = run(tmp_path, recipe_of(scripts.LIBRARY, tracking=server.uri, **LITTLE), lm)
    assert len(asked) > 3
    assert ran.result.untracked
    assert [note for note in ran.progress.notes if "no longer tracked" in note] == [
        f"the run is no longer tracked, since MLflow's store fails: {ran.result.untracked}"
    ]
    assert (
        json.loads((ran.result.folder / "run.json").read_bytes())["tracking"]["lost"] == ran.result.untracked
    )
    assert ran.result.manifest["sha256"] == tracked.result.manifest["sha256"]
