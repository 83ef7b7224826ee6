"""Evaluated turns as MLflow's traces: a span for each stage, within it one for the source and for each of its calls."""

from __future__ import annotations

import base64
import json
import secrets
import time
from collections.abc import Mapping
from typing import Any

from jazzmine_dspy.eval.evaluation import TurnResult
from jazzmine_dspy.models.decision import StageRecord, TurnDecision

_MS = 1_000_000
"""Nanoseconds."""


def trace_of(result: TurnResult, *, experiment: str, run_id: str) -> tuple[Any, list[Any]]:
    """MLflow's own objects for one evaluated turn: what describes its trace, and its spans.

    Stages follow each other; their lengths are the measured ones. Calls stand where they were made.

    Args:
        result: The turn, with its decision.
        experiment: Id of the experiment that holds the trace.
        run_id: The run that it belongs to.
    """
    from mlflow.entities import TraceInfo, TraceLocation, TraceState

    spans = _Spans()
    turn, decision, begun = result.example.turn, result.decision, time.time_ns()
    length = int(result.latency_ms * _MS)
    answer = {"error": result.error} if decision is None else _answer(decision)
    asked = {"text": turn.text, "flow": turn.flow, "awaiting": turn.awaiting}
    wanted = result.example.labels.model_dump(mode="json", exclude_none=True)
    root = spans.add("turn", "CHAIN", None, begun, length, asked, answer, {"expected": wanted})
    at = begun
    for stage, record in decision.stages.items() if decision is not None else ():
        took = int(record.latency_ms * _MS)
        _add_stage(spans, root, stage, record, (begun, at, took), _of_stage(answer, stage))
        at += took
    info = TraceInfo(
        trace_id=spans.trace_id,
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
    return info, spans.made


def _add_stage(
    spans: _Spans,
    root: str,
    stage: str,
    record: StageRecord,
    times: tuple[int, int, int],
    answer: Mapping[str, Any],
) -> None:
    begun, at, took = times
    facts = {"confidence": record.confidence, "degraded": record.degraded, "cause": record.cause}
    over = spans.add(stage, "CHAIN", root, at, took, {}, answer, {})
    named = f"{record.source}: {record.name}" if record.name else record.source
    source = spans.add(named, "TOOL", over, at, took, {}, answer, facts, failed=record.degraded)
    for call in record.calls:
        usage = {
            "input_tokens": call.prompt_tokens,
            "output_tokens": call.completion_tokens,
            "total_tokens": call.prompt_tokens + call.completion_tokens,
        }
        spans.add(
            f"{call.model} {call.predictor}", "CHAT_MODEL", source,
            begun + int(call.started_ms * _MS), int(call.latency_ms * _MS),
            {}, {"error": call.error}, {"mlflow.chat.tokenUsage": usage}, failed=not call.success,
        )  # fmt: skip


def _answer(decision: TurnDecision) -> dict[str, Any]:
    return {
        "enhancement": decision.enhancement.model_dump(mode="json"),
        "flows": list(decision.selection.flows),
        "commands": [command.as_answer() for command in decision.commands],
    }


def _of_stage(answer: Mapping[str, Any], stage: str) -> dict[str, Any]:
    part = {"enhance": "enhancement", "select": "flows", "understand": "commands"}.get(stage, "")
    return {part: answer[part]} if part in answer else {}


class _Spans:
    """The spans of one trace, made one by one."""

    def __init__(self) -> None:
        self._trace = secrets.token_bytes(16)
        self.trace_id = f"tr-{self._trace.hex()}"
        self.made: list[Any] = []

    def add(
        self,
        name: str,
        kind: str,
        parent: str | None,
        at: int,
        took: int,
        inputs: Mapping[str, Any],
        outputs: Mapping[str, Any],
        more: Mapping[str, Any],
        *,
        failed: bool = False,
    ) -> str:
        """Add a span, which is over; returns its id, for those within it."""
        from mlflow.entities import Span

        span_id = base64.b64encode(secrets.token_bytes(8)).decode()
        said = {
            "mlflow.traceRequestId": self.trace_id,
            "mlflow.spanType": kind,
            "mlflow.spanInputs": dict(inputs),
            "mlflow.spanOutputs": dict(outputs),
            **more,
        }
        self.made.append(
            Span.from_dict(
                {
                    "trace_id": base64.b64encode(self._trace).decode(),
                    "span_id": span_id,
                    "parent_span_id": parent,
                    "name": name,
                    "start_time_unix_nano": at,
                    "end_time_unix_nano": at + took,
                    "events": [],
                    "status": {"code": f"STATUS_CODE_{'ERROR' if failed else 'OK'}", "message": ""},
                    "attributes": {
                        key: json.dumps(value, ensure_ascii=False, default=str) for key, value in said.items()
                    },
                }
            )
        )
        return span_id
