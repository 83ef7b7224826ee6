"""The state of predictors: carried from one program to another, and checked before it is taken."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any, Protocol, TypeVar

import dspy

from jazzmine_dspy._version import __version__
from jazzmine_dspy.models.errors import ArtifactError
from jazzmine_dspy.program.nearest import NEAREST, with_nearest
from jazzmine_dspy.signatures.contract import CONTRACTS, fingerprint

States = Mapping[str, Mapping[str, Any]]
"""The state of predictors by name: demonstrations, instructions, and descriptions of the fields."""

CONTRACT = "contract"
"""Where a saved module says what its predictors were compiled for."""

_PASSING = ("lm", "traces", "train")

log = logging.getLogger("jazzmine_dspy")


class HasPredictors(Protocol):
    """A program, or what is trained of one."""

    def active_predictors(self) -> tuple[str, ...]:
        """Names of the predictors that are asked."""
        ...

    def predictor(self, name: str) -> dspy.Predict:
        """The predictor of that name."""
        ...


P = TypeVar("P", bound=HasPredictors)


def states_of(program: HasPredictors) -> States:
    """The whole state of the predictors that a program asks, as an artefact keeps it."""
    found = {}
    for name in program.active_predictors():
        predictor = program.predictor(name)
        state = with_nearest(predictor, predictor.dump_state(json_mode=True))
        found[name] = {key: value for key, value in state.items() if key not in _PASSING}
    return found


def put(states: States, program: HasPredictors) -> None:
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


def put_trainable(state: Mapping[str, Any], names: Iterable[str], program: HasPredictors) -> None:
    """Take over the state of a trainable module, whose predictors are those named.

    Raises:
        ArtifactError: it was compiled for other signatures, or is of another shape.
    """
    mine = {name: program.predictor(name).signature for name in names}
    check_contract(state, mine, expected=True)
    put({name: state[name] for name in mine}, program)
