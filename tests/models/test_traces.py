"""M3, M4: the records of a turn, field by field, and totals that add up."""

from __future__ import annotations

import typing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from pydantic_core import PydanticUndefined

from jazzmine_dspy.models import Enhancement, LMCall, Selection, StageRecord, TurnDecision, Usage
from jazzmine_dspy.models.messages import (
    ConfirmationEvent,
    FlowEvent,
    LLMCallRecord,
    Purpose,
    ScriptGenAttempt,
    SlotEvent,
    TaskEmission,
    ToolTrace,
    TurnTrace,
)

REQUIRED = object()
FIELDS: dict[Any, dict[str, Any]] = {
    LLMCallRecord: {
        "call_id": "", "purpose": REQUIRED, "model": REQUIRED, "prompt_tokens": 0, "completion_tokens": 0,
        "latency_ms": 0.0, "timestamp_ms": 0, "success": True, "error": None,
    },
    ScriptGenAttempt: {
        "attempt": REQUIRED, "prompt_tokens": 0, "completion_tokens": 0, "latency_ms": 0.0, "success": False,
        "parse_error": None,
    },
    TaskEmission: {
        "task_index": REQUIRED, "sandbox": "", "mode": "interactive", "description": "", "timestamp_ms": 0,
    },
    ToolTrace: {
        "tool_name": "", "task_index": 0, "sandbox": "", "mode": "interactive", "description": "",
        "execution_id": "", "generation_attempts": [], "final_script": None, "final_data": None,
        "intermediates": [], "api_calls": [], "error": None, "traceback": None, "output_bytes": 0,
        "peak_memory_bytes": None, "latency_ms": 0.0, "execution_latency_ms": 0.0, "success": True,
    },
    SlotEvent: {
        "flow_name": REQUIRED, "slot_name": REQUIRED, "slot_type": "text", "required": True, "value": None,
        "collected": False, "collected_at_turn": 0, "validation_error": "",
    },
    ConfirmationEvent: {"question": REQUIRED, "outcome": REQUIRED, "resolved_at_turn": 0},
    FlowEvent: {"flow_id": REQUIRED, "flow_name": REQUIRED, "flow_type": "flow", "event": REQUIRED},
    TurnTrace: {
        "id": REQUIRED, "message_id": REQUIRED, "conversation_id": "", "user_id": "", "agent_id": "",
        "turn_number": 0, "started_at_ms": 0, "ended_at_ms": 0, "llm_calls": [], "total_latency_ms": 0.0,
        "task_emissions": [], "tool_traces": [], "slot_events": [], "confirmation_events": [],
        "flow_events": [], "reasoning_steps": [], "errors": [], "detected_intent": "unknown",
        "detected_entities": [], "detected_sentiment": 0.0, "detected_cancellation": False,
        "detected_continuation": True, "program_fingerprint": None, "turn_digest": None,
    },
}  # fmt: skip
TOTALS = {"total_prompt_tokens", "total_completion_tokens", "total_tokens"}


@pytest.mark.row("M3")
@pytest.mark.parametrize("kind", FIELDS, ids=lambda kind: kind.__name__)
def test_every_field_and_default(kind: Any) -> None:
    found = {}
    for name, field in kind.model_fields.items():
        value = field.get_default(call_default_factory=True)
        found[name] = REQUIRED if value is PydanticUndefined else value
    assert found == FIELDS[kind]


@pytest.mark.row("M3")
def test_purposes_outcomes_and_events() -> None:
    assert set(typing.get_args(Purpose)) == {
        "agent_loop", "script_generation", "flow_selection", "slot_extraction", "enhancement", "understanding",
        "decision", "other",
    }  # fmt: skip
    for purpose in typing.get_args(Purpose):
        assert LLMCallRecord(purpose=purpose, model="m").purpose == purpose
    for outcome in ("confirmed", "cancelled", "expired"):
        ConfirmationEvent(question="Sure?", outcome=outcome)
    for event in ("started", "paused", "resumed", "completed", "cancelled", "failed", "topic_shifted"):
        FlowEvent(flow_id="f", flow_name="f", event=event)
    assert [TaskEmission(task_index=0, mode=mode).mode for mode in ("plan", "interactive")]
    unknown: Any = "never heard of"
    for make in (
        lambda: LLMCallRecord(purpose=unknown, model="m"),
        lambda: ConfirmationEvent(question="Sure?", outcome=unknown),
        lambda: FlowEvent(flow_id="f", flow_name="f", event=unknown),
        lambda: ToolTrace(mode=unknown),
    ):
        with pytest.raises(ValidationError, match="never heard of"):
            make()


def call(prompt: int, completion: int, **fields: Any) -> LLMCallRecord:
    return LLMCallRecord(
        purpose="other", model="m", prompt_tokens=prompt, completion_tokens=completion, **fields
    )


@pytest.mark.row("M4")
@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)), max_size=6))
def test_totals_are_sums_dumped_and_never_believed(spent: list[tuple[int, int]]) -> None:
    trace = TurnTrace(id="t", message_id="m", llm_calls=[call(*each) for each in spent])
    dumped = trace.model_dump(mode="json")
    assert dumped["total_prompt_tokens"] == sum(prompt for prompt, _ in spent)
    assert dumped["total_completion_tokens"] == sum(completion for _, completion in spent)
    assert (
        dumped["total_tokens"]
        == sum(map(sum, spent))
        == sum(one["total_tokens"] for one in dumped["llm_calls"])
    )
    forged = dumped | dict.fromkeys(TOTALS, 7)
    forged["llm_calls"] = [one | {"total_tokens": 7} for one in dumped["llm_calls"]]
    assert TurnTrace.model_validate(forged) == trace
    assert TurnTrace.model_validate(forged).model_dump(mode="json") == dumped


@pytest.mark.row("M4")
def test_totals_follow_the_calls_and_cannot_be_set() -> None:
    trace = TurnTrace(id="t", message_id="m")
    trace.llm_calls = [call(3, 4), call(10, 0, success=False, error="no answer")]
    assert (trace.total_prompt_tokens, trace.total_completion_tokens, trace.total_tokens) == (13, 4, 17)
    trace.llm_calls[0].prompt_tokens = 5
    assert (trace.llm_calls[0].total_tokens, trace.total_tokens) == (9, 19)
    for held, name in ((trace, "total_tokens"), (trace.llm_calls[0], "total_tokens")):
        with pytest.raises((ValidationError, AttributeError)):
            setattr(held, name, 1)


def test_a_trace_of_before_is_read() -> None:
    old = {
        "id": "t", "message_id": "m", "conversation_id": "c", "agent_id": "a", "total_latency_ms": 3.5,
        "llm_calls": [{"purpose": "decision", "model": "m", "prompt_tokens": 3, "total_tokens": 3}],
        "tool_traces": [{"tool_name": "orders.lookup", "output_bytes": 5}],
    }  # fmt: skip
    assert TurnTrace.model_validate(old).total_tokens == 3


def decision(*calls: LMCall) -> TurnDecision:
    half = len(calls) // 2
    parts = {"enhance": calls[:half], "understand": calls[half:]}
    return TurnDecision.model_validate(
        {
            "enhancement": Enhancement(enhanced_query="x"),
            "selection": Selection(),
            "stages": {
                stage: StageRecord(source="lm", usage=Usage.of(part), calls=part)
                for stage, part in parts.items()
            },
        }
    )


def lm_call(started: float, **fields: Any) -> LMCall:
    return LMCall(predictor="fused", prompt_tokens=3, completion_tokens=1, started_ms=started, **fields)


@pytest.mark.row("M4")
def test_the_calls_of_a_decision_stand_in_their_order_and_times_are_no_content() -> None:
    made = decision(lm_call(9.0), lm_call(1.0, success=False, error="late", latency_ms=4.0), lm_call(5.0))
    assert [one.started_ms for one in made.calls] == [1.0, 5.0, 9.0]
    assert made.usage == Usage(lm_calls=3, prompt_tokens=9, completion_tokens=3)
    later = decision(lm_call(9.5), lm_call(2.0, success=False, error="late", latency_ms=8.0), lm_call(5.0))
    assert later != made
    assert later.content() == made.content()
    other = decision(lm_call(9.0), lm_call(1.0, latency_ms=4.0), lm_call(5.0))
    assert other.content() != made.content()
    assert TurnDecision.model_validate_json(made.model_dump_json()) == made
    with pytest.raises(ValidationError):
        lm_call(-1.0)
    with pytest.raises(ValidationError):
        lm_call(1.0, error="\ud800")
