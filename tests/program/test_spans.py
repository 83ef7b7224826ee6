"""What MLflow's tracing of DSPy shows of a turn: its stages, and the sources that were asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dspy
import mlflow
import pytest

from jazzmine_dspy.models import Turn
from jazzmine_dspy.program.policy import Policy

Make = Callable[..., Any]


@pytest.fixture
def spans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    # Files, since a new database takes MLflow many seconds.
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    uri = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri((tmp_path / "mlflow").as_uri())
    mlflow.create_experiment("spans", artifact_location=str(tmp_path / "spans"))
    mlflow.set_experiment("spans")
    mlflow.dspy.autolog()

    def found() -> list[Any]:
        mlflow.flush_trace_async_logging()
        traces = mlflow.search_traces(return_type="list")
        return list(traces[0].data.spans)

    yield found
    mlflow.dspy.autolog(disable=True)
    mlflow.set_tracking_uri(uri)


@pytest.mark.row("A10")
def test_autolog_shows_deciders_and_sources(
    spans: Any, speak: Make, make_program: Make, enhanced: dict[str, Any]
) -> None:
    lm = speak(fused=enhanced | {"flows": [], "commands": [{"type": "ask"}]})
    program = make_program(lm, "fused").with_policy(Policy())
    decision = program.decide(Turn(text="tell me of the pelican"))
    found = spans()
    by_id = {span.span_id: span.name for span in found}
    parent = {span.name: by_id.get(span.parent_id) for span in found}
    assert parent["LocalDecider.forward"] == parent["LmDecider.forward"] == "TurnProgram.forward"
    assert parent["Predict.forward"] == "LmDecider.forward"
    outputs = {span.name: span.outputs for span in found if span.name.endswith("Decider.forward")}
    assert outputs["LmDecider.forward"]["commands"] == [{"type": "ask", "topic": ""}]
    for stage, record in decision.stages.items():
        shown = outputs["LmDecider.forward"][stage]
        assert (shown["source"], shown["degraded"]) == (record.source, record.degraded) == ("lm", False)
        assert outputs["LocalDecider.forward"][stage]["source"] in ("rule", "local", "fallback")
    assert all(span.status.status_code.name == "OK" for span in found)


def test_without_a_callback_nothing_is_told(make_program: Make, speak: Make) -> None:
    from jazzmine_dspy.program.decide import observed

    told: list[bool] = []
    with dspy.context(callbacks=[]), observed("X", {}, lambda: told.append(True)):
        pass
    assert not told


async def test_a_callback_that_fails_costs_no_turn(
    speak: Make, make_program: Make, enhanced: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    from dspy.utils.callback import BaseCallback

    class Broken(BaseCallback):
        def on_module_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
            raise RuntimeError("sk-secret")

    lm = speak(enhance=enhanced, select={"flows": []}, understand={"commands": [{"type": "ask"}]})
    program = make_program(lm, "staged")
    with dspy.context(callbacks=[Broken()]):
        decision = await program.adecide("where is my order")
    assert decision.commands[0].type == "ask"
    assert "a callback failed: RuntimeError" in caplog.text
