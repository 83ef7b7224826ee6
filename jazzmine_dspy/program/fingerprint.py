"""Fingerprints of a program and of a decision: equal programs decide equal turns alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dspy

from jazzmine_dspy.lm.native import lm_identity
from jazzmine_dspy.models.base import canonical_json, sha256
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.program.decider import decider_identity
from jazzmine_dspy.program.heads.acts.shipped import SHIPPED
from jazzmine_dspy.program.heads.feeling.head import SHIPPED as FEELING
from jazzmine_dspy.program.module import DecidingModule
from jazzmine_dspy.program.prompts import nearest_of, with_nearest
from jazzmine_dspy.signatures.contract import CONTRACTS, fingerprints

_KNOWN: dict[tuple[Any, ...], str] = {}
"""Fingerprints by what they are made of: writing signatures down takes nearly all of their time."""

_KNOWN_KEPT = 64


def program_fingerprint(program: DecidingModule) -> str:
    """SHA-256 over all of the program that may change a decision, bound parts included."""
    bound = program.bindings
    parts = [bound.recall, bound.embedder]
    policy = program.policy.model_dump(mode="json")
    rest = {
        "deciders": decider_identity(program.policy, bound.deciders),
        "weights": [SHIPPED, FEELING],
        "signatures": fingerprints(),
        "flows": program.registry.checksum,
        "parts": [part.fingerprint if part is not None else None for part in parts],
        "heads": {stage: head.fingerprint for stage, head in bound.heads.items()},
        "lm": lm_identity(bound.lm) if bound.lm is not None else None,
    }
    predictors = dict(program.named_parameters())
    made_of = (canonical_json([policy, rest]), *map(_made_of, predictors.items()))
    known = _KNOWN.get(made_of)
    if known is None:
        states = {name: _state(name, predictor) for name, predictor in predictors.items()}
        known = sha256({"state": {**states, "policy": policy}, **rest})
        if len(_KNOWN) >= _KNOWN_KEPT:
            _KNOWN.clear()
        _KNOWN[made_of] = known
    return known


def _made_of(named: tuple[str, Any]) -> tuple[Any, ...]:
    """All that the state of a predictor is made of. A signature is replaced, never changed but for its instructions."""
    name, predictor = named
    signature = predictor.signature
    learnt = (predictor.demos, predictor.traces, predictor.train, predictor.fields)
    return name, signature, signature.instructions, nearest_of(predictor), repr(learnt)


def _state(name: str, predictor: Any) -> dict[str, Any]:
    """DSPy's state of a predictor but its language model, with how many demonstrations it is shown."""
    dumped = predictor.dump_state()
    state = with_nearest(predictor, dumped) if name in CONTRACTS else dumped
    return {field: value for field, value in state.items() if field != "lm"}


def decision_key(program: DecidingModule, turn: Turn, exclude: Sequence[str] = ()) -> str:
    """SHA-256 over everything that a decision depends on.

    It covers the turn with its date, the program with its flows, the configured language model if none is bound, the
    models and settings of single predictors, and the conversations excluded from recall.
    """
    predictors = {name: program.predictor(name) for name in program.active_predictors()}
    configured = dspy.settings.lm if program.bindings.lm is None else None
    return sha256(
        {
            "program": program.fingerprint,
            "turn": turn.digest,
            "exclude": sorted(exclude),
            "lm": _lm_identity(configured) if predictors else None,
            "predictors": {
                name: [_lm_identity(predictor.lm), repr(sorted(predictor.config.items()))]
                for name, predictor in predictors.items()
            },
            "adapter": type(dspy.settings.adapter).__qualname__,
        }
    )


def _lm_identity(lm: Any) -> str | None:
    if lm is None or isinstance(lm, dspy.LM):
        return lm_identity(lm) if lm is not None else None
    # Clients of other kinds have no known settings: each is its own identity.
    return f"{type(lm).__qualname__} {id(lm)}"
