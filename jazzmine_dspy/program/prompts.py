"""The state of predictors, and the fingerprints of programs and decisions.

A state is carried to another program, and checked before. Equal programs decide equal turns alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import dspy

from jazzmine_dspy._version import __version__
from jazzmine_dspy.lm.native import lm_identity
from jazzmine_dspy.models import Turn
from jazzmine_dspy.models.base import canonical_json, log, sha256
from jazzmine_dspy.models.errors import ArtifactError
from jazzmine_dspy.program.decider import decider_identity
from jazzmine_dspy.program.heads.acts.model import SHIPPED
from jazzmine_dspy.program.heads.feeling.head import SHIPPED as FEELING
from jazzmine_dspy.program.module import DecidingModule, ProgramModule
from jazzmine_dspy.signatures.contract import CONTRACTS, fingerprint, fingerprints

_NEAREST = "nearest"
"""Where older states say how many demonstrations each call chose."""

States = Mapping[str, Mapping[str, Any]]
"""The state of predictors by name: demonstrations, instructions, and descriptions of the fields."""

CONTRACT = "contract"
"""Where a saved module says what its predictors were compiled for."""

_PASSING = ("lm", "traces", "train")


def states_of(program: ProgramModule) -> States:
    """The whole state of the predictors that a program asks, as an artefact keeps it."""
    states = {}
    for name in program.active_predictors():
        predictor = program.predictor(name)
        state = predictor.dump_state(json_mode=True)
        states[name] = {key: value for key, value in state.items() if key not in _PASSING}
    return states


def put(states: States, program: ProgramModule) -> None:
    """Give predictors of a program another state; their language model stays."""
    for name, state in states.items():
        predictor = program.predictor(name)
        passing = {key: getattr(predictor, key, None) for key in _PASSING}
        lm = predictor.lm
        predictor.load_state({**passing, **state, "lm": None})
        predictor.lm = lm
        predictor.demos = [dspy.Example(**demo) for demo in predictor.demos]


def contract_of(names: Iterable[str]) -> dict[str, Any]:
    """What a saved module says beside the state of its predictors."""
    return {"jazzmine_dspy": __version__, "signatures": {name: fingerprint(name) for name in names}}


def check_contract(state: Mapping[str, Any], signatures: Mapping[str, Any], *, expected: bool) -> None:
    """Refuse a saved state that was compiled for other predictors: DSPy would put its words into the wrong fields.

    Args:
        state: As it was saved.
        signatures: Of the predictors that are to get it, by name, as they are.
        expected: Whether it is worth a word that the state does not say what it was compiled for.

    Raises:
        ArtifactError: a predictor is missing, was compiled for another signature, or chose demonstrations per call.
    """
    said = state.get(CONTRACT)
    of = f" of version {str(said.get('jazzmine_dspy'))[:40]}" if isinstance(said, Mapping) else ""
    held = [name for name in CONTRACTS if name in state]
    if choosing := [name for name in held if state[name].get(_NEAREST)]:
        raise ArtifactError(
            f"The saved module{of} chooses the demonstrations of {', '.join(choosing)} for each call",
            remedy="Compile it again: jazzmine-dspy optimize RECIPE, with an optimizer such as 'labeled_few_shot'.",
        )
    for name, signature in signatures.items():
        if name not in held:
            raise ArtifactError(
                f"The saved module{of} has no predictor {name!r}, but {', '.join(held) or 'none of ours'}",
                remedy="Load it into a program of the same shape (policy.shape), or compile again.",
            )
        fields = state[name].get("signature", {}).get("fields", ())
        other = isinstance(said, Mapping) and said.get("signatures", {}).get(name) != fingerprint(name)
        if other or len(fields) != len(signature.fields):
            raise ArtifactError(
                f"The saved module{of} was compiled for another signature of {name!r}",
                remedy="Compile it again, or install the version of jazzmine-dspy that compiled it.",
            )
    if expected and said is None:
        log.warning("the saved module does not say which version compiled it: it is loaded unchanged")
    elif isinstance(said, Mapping) and said.get("jazzmine_dspy") != __version__:
        log.warning("the saved module was compiled by version %s, and fits this one", of.rpartition(" ")[2])


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
    predictors = dict(program.all_parameters())
    made_of = (canonical_json([policy, rest]), *map(_made_of, predictors.items()))
    known = _KNOWN.get(made_of)
    if known is None:
        states = {name: _state(predictor) for name, predictor in predictors.items()}
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
    return name, signature, signature.instructions, repr(learnt)


def _state(predictor: Any) -> dict[str, Any]:
    """DSPy's state of a predictor but its language model."""
    return {field: value for field, value in predictor.dump_state().items() if field != "lm"}


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
