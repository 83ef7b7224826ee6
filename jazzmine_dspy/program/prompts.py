"""Demonstrations chosen per call, the state of predictors, and the fingerprints of programs and decisions.

A state is carried to another program, and checked before. Equal programs decide equal turns alike.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import dspy
import numpy as np
from numpy.typing import NDArray

from jazzmine_dspy._version import __version__
from jazzmine_dspy.lm.native import lm_identity
from jazzmine_dspy.models import MessageRole, Turn
from jazzmine_dspy.models.base import canonical_json, log, sha256
from jazzmine_dspy.models.errors import ArtifactError, format_error
from jazzmine_dspy.program.decider import decider_identity
from jazzmine_dspy.program.heads.acts.shipped import SHIPPED
from jazzmine_dspy.program.heads.feeling.head import SHIPPED as FEELING
from jazzmine_dspy.program.module import DecidingModule, ProgramModule
from jazzmine_dspy.program.ports import EmbedderPort
from jazzmine_dspy.signatures.contract import CONTRACTS, fingerprint, fingerprints

Vectors = NDArray[np.float32]

NEAREST = "nearest"
"""Where the state of a predictor says how many of its demonstrations are shown; without it all are."""

SAID, CONVERSATION = "said", "conversation"
"""Where such a demonstration says what its turn is found by, and whose it is; neither is shown."""

_SHORT = 10
"""Words up to which a message says too little alone."""

_ASKED = 200
"""Characters of what the assistant said before it: its end."""

_KEPT = 4
"""Indices that are kept in memory: a program has one for each predictor."""


def nearest_of(predictor: dspy.Predict) -> int:
    """How many demonstrations a predictor is shown per call; 0 where it is shown all that it holds.

    Example:
        >>> nearest_of(dspy.Predict("question -> answer"))
        0
    """
    return int(getattr(predictor, NEAREST, 0) or 0)


def found_by(turn: Turn) -> str:
    """The text that a turn is found by: the message, and before a short one what it answers.

    Example:
        >>> found_by(Turn(text="the 14th", history=[{"role": "assistant", "text": "On which day?"}]))
        'On which day?\\nthe 14th'
    """
    asked = next(
        (one.text[-_ASKED:].strip() for one in reversed(turn.history) if one.role is MessageRole.ASSISTANT),
        "",
    )
    return f"{asked}\n{turn.text}" if asked and len(turn.text.split()) <= _SHORT else turn.text


def shown(
    predictor: dspy.Predict, embedder: EmbedderPort | None, said: str, exclude: Collection[str]
) -> dict[str, Any]:
    """What a call of a predictor is given beside its inputs: ``demos``, the nearest last; nothing where it shows all.

    Args:
        predictor: Holds the demonstrations.
        embedder: Embeds message and turns; where it is down, the first demonstrations are shown.
        said: What the message is found by.
        exclude: Conversations whose turns must not be shown, while fitting; nor any that say the same then.
    """
    count = nearest_of(predictor)
    if not count or not predictor.demos:
        return {}
    demos = [
        demo
        for demo in predictor.demos
        if not exclude or (demo.get(CONVERSATION) not in exclude and demo.get(SAID) != said)
    ]
    if len(demos) <= count:
        return {"demos": demos}
    if embedder is None:
        return {"demos": demos[:count]}
    try:
        alike = _index(embedder, tuple(str(demo.get(SAID) or "") for demo in predictor.demos))
        query = _unit(embedder.embed([said]))[0]
    except Exception as error:
        log.warning("the nearest demonstrations were not found: %s", format_error(error))
        return {"demos": demos[:count]}
    scores = dict(zip(map(id, predictor.demos), alike @ query, strict=True))
    best = sorted(demos, key=lambda demo: -scores[id(demo)])[:count]
    # The nearest stands last, beside the question.
    return {"demos": best[::-1]}


_LOCK = threading.Lock()
_INDICES: dict[tuple[str, tuple[str, ...]], Vectors] = {}


def _index(embedder: EmbedderPort, texts: tuple[str, ...]) -> Vectors:
    """Vectors of unit length of all texts, made once per process: array of shape (number of texts, size)."""
    key = (embedder.fingerprint, texts)
    with _LOCK:
        if (vectors := _INDICES.get(key)) is None:
            vectors = _unit(embedder.embed(list(texts)))
            while len(_INDICES) >= _KEPT:
                del _INDICES[next(iter(_INDICES))]
            _INDICES[key] = vectors
        return vectors


def _unit(vectors: Vectors) -> Vectors:
    unit: Vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    return unit


def with_nearest(predictor: dspy.Predict, state: dict[str, Any]) -> dict[str, Any]:
    """The state of a predictor, with how many of its demonstrations it is shown."""
    count = nearest_of(predictor)
    return {**state, NEAREST: count} if count else state


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
        state = with_nearest(predictor, predictor.dump_state(json_mode=True))
        states[name] = {key: value for key, value in state.items() if key not in _PASSING}
    return states


def put(states: States, program: ProgramModule) -> None:
    """Give predictors of a program another state; their language model stays."""
    for name, state in states.items():
        predictor = program.predictor(name)
        passing = {key: getattr(predictor, key, None) for key in _PASSING}
        lm = predictor.lm
        predictor.load_state({**passing, NEAREST: 0, **state, "lm": None})
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
        ArtifactError: a predictor is missing, or was compiled for another signature.
    """
    said = state.get(CONTRACT)
    of = f" of version {str(said.get('jazzmine_dspy'))[:40]}" if isinstance(said, Mapping) else ""
    held = [name for name in CONTRACTS if name in state]
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
        log.warning("the saved module does not say which version compiled it: it is taken as it is")
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
