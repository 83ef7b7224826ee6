"""What a run leaves in MLflow: runs with parameters, metrics, datasets, traces and files. Never a pickled model."""

from __future__ import annotations

import base64
import json
import logging
import math
import re
import secrets
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec

from jazzmine_dspy.artifacts.publishing import experiment_of
from jazzmine_dspy.eval.evaluation import TurnResult
from jazzmine_dspy.models.base import log
from jazzmine_dspy.models.errors import ArtifactError, RecipeError, format_error

P = ParamSpec("P")

_BATCH = 100
"""Parameters, or metrics, that MLflow takes in one request at most (it takes 1,000 metrics)."""


def _degrading(work: Callable[Concatenate[Tracker, P], None]) -> Callable[Concatenate[Tracker, P], None]:
    """What does nothing once the store has failed, and whose failure ends the tracking alone."""

    @wraps(work)
    def tried(self: Tracker, /, *given: P.args, **named: P.kwargs) -> None:
        if self.lost:
            return
        try:
            work(self, *given, **named)
        except Exception as error:
            self.lost = format_error(error)
            self._note(f"the run is no longer tracked, since MLflow's store fails: {self.lost}")

    return tried


class Tracker:
    """Logs one run, and others as its children.

    A store that fails once it was opened ends the tracking, not the run: it is said in a warning, ``lost`` holds the
    reason, and all further calls do nothing.

    Args:
        uri: MLflow tracking URI; empty for a SQLite file in ``folder``.
        folder: Where the default store and its artefacts are.
        experiment: Name of the experiment.
        note: Told when the store fails.

    Raises:
        RecipeError: MLflow is not installed, its store cannot be opened, or the experiment was deleted and cannot
            be restored.
    """

    def __init__(
        self, uri: str, folder: Path, experiment: str, note: Callable[[str], None] = log.warning
    ) -> None:
        try:
            import mlflow
        except ImportError as error:
            raise RecipeError(
                "MLflow is not installed", where="tracking",
                remedy="Install the extra 'optimize', or set tracking = 'none'.",
            ) from error  # fmt: skip
        self.lost = ""
        self.uri = uri or f"sqlite:///{folder.resolve() / 'mlflow.db'}"
        self._note = note
        self._children: list[str] = []
        folder = folder.resolve()
        # It would tell of the tables that it makes, in the middle of the run's own lines.
        talkative = logging.getLogger("mlflow.store.db.utils")
        level = talkative.level
        talkative.setLevel(max(talkative.getEffectiveLevel(), logging.WARNING))
        try:
            if not uri:
                folder.mkdir(parents=True, exist_ok=True)
            self._client = mlflow.MlflowClient(tracking_uri=self.uri)
            place = None if uri else (folder / "artifacts").as_uri()
            self._experiment = experiment_of(self._client, experiment, place, note)
            self.run_id: str = self._client.create_run(self._experiment, run_name=experiment).info.run_id
        except ArtifactError as error:
            raise RecipeError(error.message, where=error.where, remedy=error.remedy) from error
        except Exception as error:
            raise RecipeError(
                f"MLflow's store cannot be used: {format_error(error)}", where=f"tracking = {shown(uri)!r}",
                remedy="Correct the URI, or set tracking = 'none'.",
            ) from error  # fmt: skip
        finally:
            talkative.setLevel(level)

    @property
    def facts(self) -> dict[str, str]:
        """Where the run is: for ``run.json``, which is passed on, so that no path of this machine stands in it."""
        uri = shown(self.uri).replace(f"{Path.cwd().resolve()}/", "")
        return {"uri": uri, "run_id": self.run_id, "lost": self.lost}

    @_degrading
    def params(self, values: Mapping[str, Any]) -> None:
        """Log parameters, nested ones under dotted names."""
        self._log(self.run_id, values, {})

    @_degrading
    def metrics(self, values: Mapping[str, float]) -> None:
        """Log metrics; what is not finite is left out."""
        self._log(self.run_id, {}, values)

    @_degrading
    def tags(self, values: Mapping[str, str]) -> None:
        """Set tags; ``mlflow.note.content`` is what a run's page says of it, in Markdown."""
        for name, value in values.items():
            self._client.set_tag(self.run_id, name, value)

    @_degrading
    def child(
        self,
        name: str,
        *,
        params: Mapping[str, Any],
        metrics: Mapping[str, float],
        texts: Mapping[str, str] | None = None,
        kind: str,
    ) -> None:
        """Log a run within this one, that is over at once.

        Args:
            name: What the page of runs shows.
            params: As in :meth:`params`.
            metrics: As in :meth:`metrics`.
            texts: Files to keep with it, by name.
            kind: What it is, in the tag ``kind``: ``candidate``, ``program`` or ``system``.
        """
        run_id = self._client.create_run(
            self._experiment, run_name=name, tags={"mlflow.parentRunId": self.run_id, "kind": kind}
        ).info.run_id
        self._children.append(run_id)
        self._log(run_id, params, metrics)
        for file, text in (texts or {}).items():
            self._client.log_text(run_id, text, file)
        self._client.set_terminated(run_id)
        self._children.remove(run_id)

    @_degrading
    def dataset(self, name: str, folder: str, roles: Mapping[str, str]) -> None:
        """Log which data a run has used: for each role its fingerprint; the data itself stays where it is."""
        from mlflow.data.dataset_source_registry import resolve_dataset_source
        from mlflow.data.meta_dataset import MetaDataset
        from mlflow.entities import DatasetInput, InputTag

        with warnings.catch_warnings(
            action="ignore", category=UserWarning
        ):  # two of its classes fit a folder
            source = resolve_dataset_source(folder)
        found = [
            (MetaDataset(source, name=f"{name}/{role}", digest=digest[:36]), role)  # type: ignore[abstract]
            for role, digest in roles.items()
        ]
        self._client.log_inputs(
            self.run_id,
            datasets=[
                DatasetInput(data._to_mlflow_entity(), [InputTag("mlflow.data.context", role)])
                for data, role in found
            ],
        )

    @_degrading
    def traces(self, turns: Sequence[Any]) -> None:
        """Log evaluated turns as traces."""
        from mlflow.tracing.client import TracingClient

        client = TracingClient(self.uri)
        for turn in turns:
            info, span = trace_of(turn, experiment=self._experiment, run_id=self.run_id)
            client.start_trace(info)
            client.log_spans(self._experiment, [span])

    @_degrading
    def folder(self, path: Path, name: str) -> None:
        """Log a folder's files."""
        self._client.log_artifacts(self.run_id, str(path), name)

    @_degrading
    def close(self, status: str = "FINISHED") -> None:
        """End the run, and what of it was left open."""
        for run_id in (*self._children, self.run_id):
            self._client.set_terminated(run_id, status)

    def _log(self, run_id: str, params: Mapping[str, Any], metrics: Mapping[str, float]) -> None:
        from mlflow.entities import Metric, Param

        now = int(time.time() * 1000)
        named = [Param(key, str(value)[:500]) for key, value in _flat(params).items()]
        # MLflow takes slashes, but neither @ nor brackets.
        numbers = [
            Metric(key.replace("@", " at "), float(value), now, 0)
            for key, value in metrics.items()
            if math.isfinite(value)
        ]
        for start in range(0, max(len(named), len(numbers)), _BATCH):
            end = start + _BATCH
            self._client.log_batch(run_id, params=named[start:end], metrics=numbers[start:end])


def shown(uri: str) -> str:
    """A URI without its user, password and query, which errors and logs must not show."""
    return re.sub(r"//.*@", "//", uri, flags=re.DOTALL).partition("?")[0]


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        flat |= _flat(value, f"{name}.") if isinstance(value, Mapping) else {name: value}
    return flat


_MS = 1_000_000
"""Nanoseconds."""


def trace_of(result: TurnResult, *, experiment: str, run_id: str) -> tuple[Any, Any]:
    """MLflow's own objects for one evaluated turn: what describes its trace, and its span.

    The span has the message, the answer, the labels, and the record of each stage with its calls.

    Args:
        result: The turn, with its decision.
        experiment: Id of the experiment that holds the trace.
        run_id: The run that it belongs to.
    """
    from mlflow.entities import Span, TraceInfo, TraceLocation, TraceState

    turn, decision, begun, trace = (
        result.example.turn,
        result.decision,
        time.time_ns(),
        secrets.token_bytes(16),
    )
    answer: dict[str, Any] = {"error": result.error}
    if decision is not None:
        answer = decision.model_dump(mode="json", include={"enhancement", "selection", "commands", "stages"})
    trace_id, labels = f"tr-{trace.hex()}", result.example.labels
    attributes = {
        "mlflow.traceRequestId": trace_id,
        "mlflow.spanType": "CHAIN",
        "mlflow.spanInputs": {"text": turn.text, "flow": turn.flow, "awaiting": turn.awaiting},
        "mlflow.spanOutputs": answer,
        "expected": labels.model_dump(mode="json", exclude_none=True),
    }
    info = TraceInfo(
        trace_id=trace_id,
        trace_location=TraceLocation.from_experiment_id(experiment),
        request_time=begun // _MS,
        state=TraceState.ERROR if decision is None else TraceState.OK,
        execution_duration=round(result.latency_ms),
        request_preview=turn.text[:200],
        response_preview=json.dumps(answer, ensure_ascii=False, default=str)[:400],
        trace_metadata={
            "mlflow.sourceRun": run_id,
            "mlflow.trace.session": result.example.conversation_id,
            "mlflow.trace_schema.version": "3",
        },
        tags={"mlflow.traceName": result.example.key, "outcome": result.outcome},
    )
    span: dict[str, Any] = {
        "trace_id": base64.b64encode(trace).decode(),
        "span_id": base64.b64encode(secrets.token_bytes(8)).decode(),
        "parent_span_id": None,
        "name": "turn",
        "start_time_unix_nano": begun,
        "end_time_unix_nano": begun + int(result.latency_ms * _MS),
        "events": [],
        "status": {"code": "STATUS_CODE_OK", "message": ""},
        "attributes": {
            key: json.dumps(each, ensure_ascii=False, default=str) for key, each in attributes.items()
        },
    }
    return info, Span.from_dict(span)
