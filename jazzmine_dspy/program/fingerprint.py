"""The fingerprint of a program: equal programs decide equal turns alike."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from jazzmine_dspy.lm.identity import lm_identity
from jazzmine_dspy.models._base import sha256
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.program.bindings import Bindings
from jazzmine_dspy.program.nearest import nearest_of, with_nearest
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.sources import identity_of
from jazzmine_dspy.signatures.contract import CONTRACTS, fingerprints

_STATES: dict[tuple[Any, ...], dict[str, Any]] = {}
"""States of predictors by what they are made of: writing a signature down takes most of a fingerprint's time."""

_STATES_KEPT = 64


class _Program(Protocol):
    """What of a program its fingerprint is made of."""

    registry: FlowRegistry
    bindings: Bindings

    @property
    def policy(self) -> Policy: ...

    def named_parameters(self) -> Iterable[tuple[str, Any]]: ...


def program_fingerprint(program: _Program) -> str:
    """SHA-256 over all of the program that may change a decision, bound parts included."""
    bound = program.bindings
    parts = [bound.recall, bound.embedder]
    state = {name: _state(name, predictor) for name, predictor in program.named_parameters()}
    return sha256(
        {
            "state": {**state, "policy": program.policy.model_dump(mode="json")},
            "sources": identity_of(program.policy),
            "signatures": fingerprints(),
            "flows": program.registry.checksum,
            "parts": [part.fingerprint if part is not None else None for part in parts],
            "heads": {stage: head.fingerprint for stage, head in bound.heads.items()},
            "lm": lm_identity(bound.lm) if bound.lm is not None else None,
        }
    )


def _state(name: str, predictor: Any) -> dict[str, Any]:
    """DSPy's state of a predictor but its language model, with how many demonstrations it is shown."""
    signature = predictor.signature
    learnt = (predictor.demos, predictor.traces, predictor.train, predictor.fields)
    key = (name, signature, signature.instructions, nearest_of(predictor), repr(learnt))
    state = _STATES.get(key)
    if state is None:
        dumped = predictor.dump_state()
        whole = with_nearest(predictor, dumped) if name in CONTRACTS else dumped
        state = {field: value for field, value in whole.items() if field != "lm"}
        if len(_STATES) >= _STATES_KEPT:
            _STATES.clear()
        _STATES[key] = state
    return state
