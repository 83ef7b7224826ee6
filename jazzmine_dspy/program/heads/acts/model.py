"""The head of acts: what a message does, told without a language model, and the commands that this makes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load

from jazzmine_dspy.models.agreement import stance
from jazzmine_dspy.models.base import sha256
from jazzmine_dspy.models.commands import Command
from jazzmine_dspy.models.errors import ArtifactError, InputError
from jazzmine_dspy.models.turn import Confirming, Turn
from jazzmine_dspy.program.heads.acts import view
from jazzmine_dspy.program.heads.acts.compose import acts_on, compose
from jazzmine_dspy.program.heads.acts.readings import Scene
from jazzmine_dspy.program.ports import EmbedderPort, Floats, HeadInput, HeadOutput, HeadState

ACTS = (
    "affirm", "deny", "value", "correct", "clear", "skip", "cancel_flow", "resume_flow", "ask", "repeat", "restart",
    "chitchat", "handoff", "out_of_scope", "start", "nothing",
)  # fmt: skip
"""What a message may do; several at once, "nothing" alone."""

SIGNS = 10
"""What tells how likely a decision is right; see :func:`signs`."""

WEIGHTS = "weights.safetensors"
SHIPPED = "451bee55de2d609a4b8d63620fb0ce6cb2208ca155322bb8d7be27ba098fd3e3"
"""SHA-256 of the shipped head; what a program decides may change with it."""

_FORMAT = 2


class Sure(NamedTuple):
    """Factors of :func:`signs` and an offset: log-odds that all commands are right."""

    factors: tuple[float, ...]
    offset: float

    def of(self, signs: Sequence[float]) -> float:
        """The probability that all commands are right."""
        return float(1.0 / (1.0 + np.exp(-(float(np.dot(signs, self.factors)) + self.offset))))


class Acts:
    """Linear over meaning, words and state: one probability for each act, and commands composed of the likely ones.

    Args:
        weights: Shape (features, acts); see :func:`.view.full`.
        scales: Factor and offset that make log-odds of each act's score, shape (acts, 2).
        sure: How likely all commands are right.
        flows: Names of flows of which labels tell when they start; empty where nothing was learnt of any.
        flow_weights: What labels add to the log-odds that each of them starts, shape (features, flows). The name ""
            stands for any flow.
    """

    def __init__(
        self,
        weights: Floats,
        scales: Floats,
        sure: Sure,
        flows: Sequence[str] = (),
        flow_weights: Floats | None = None,
    ) -> None:
        self.weights = np.ascontiguousarray(weights, np.float16).astype(np.float32)
        self.scales = np.ascontiguousarray(scales, np.float32)
        self.sure = sure
        self.flows = tuple(flows)
        added = np.zeros((len(self.weights), 0)) if flow_weights is None else flow_weights
        self.flow_weights = np.ascontiguousarray(added, np.float16).astype(np.float32)
        parts = [sha256(array.tobytes()) for array in (self.weights, self.scales)]
        if self.flows:
            parts += [*self.flows, sha256(self.flow_weights.tobytes())]
        self.fingerprint = sha256([*parts, list(sure.factors), sure.offset])
        """SHA-256 over all that decides."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Acts:
        return self

    def texts(self, message: str) -> tuple[str, ...]:
        """The message."""
        return (message,)

    @staticmethod
    def texts_of(turn: Turn) -> tuple[str, ...]:
        """The message, and the assistant's last one where there is one."""
        last_message = view.last_said(turn)
        return (turn.text, last_message) if last_message else (turn.text,)

    def scores(self, rows: view.Stack) -> Floats:
        """Scores of acts, shape (rows, acts).

        Raises:
            InputError: the features are not of the model that the head was fitted with.
        """
        scores: Floats = self._features(rows) @ self.weights
        return scores

    def _features(self, rows: view.Stack) -> Floats:
        features = view.full(rows)
        if features.shape[1] != len(self.weights):
            raise InputError(
                f"The head of acts was fitted on {len(self.weights)} features and not on {features.shape[1]}",
                remedy="Bind the embedding model that it was fitted with, or compile the program again.",
            )
        return features

    def shares(self, scores: Floats) -> dict[str, float]:
        """The probability of each act, by its score."""
        odds = np.clip(scores * self.scales[:, 0] + self.scales[:, 1], -30.0, 30.0)
        return dict(zip(ACTS, (1.0 / (1.0 + np.exp(-odds))).astype(float).tolist(), strict=True))

    def probabilities(self, given: HeadInput) -> dict[str, float]:
        """The probability of each act of a message, from 0 to 1; several may be likely."""
        return self.read(given)[0]

    def read(self, given: HeadInput) -> tuple[dict[str, float], dict[str, float]]:
        """The probability of each act of a message, and what labels add to the log-odds of each flow."""
        features = self._features(view.Stack.of([view.look(given)]))
        added = (features @ self.flow_weights)[0].astype(float).tolist() if self.flows else []
        return self.shares((features @ self.weights)[0]), dict(zip(self.flows, added, strict=True))

    def predict(self, given: HeadInput, p: Mapping[str, float] | None = None) -> HeadOutput[list[Command]]:
        """The commands of a message, and the probability that they are all right.

        Args:
            given: The turn.
            p: The probability of each act, if they were computed.
        """
        commands, sign_row = self.composed(given, self.probabilities(given) if p is None else p)
        return HeadOutput(commands, self.sure.of(sign_row))

    def composed(self, given: HeadInput, p: Mapping[str, float]) -> tuple[list[Command], list[float]]:
        """The commands that probabilities of acts come to, and :func:`signs` of them."""
        scene = Scene(given.turn, given.tasks, given.starting, given.at)
        on = acts_on(p, scene)
        commands = compose(p, scene, on, lambda: self._agrees(given))
        return commands, signs(p, scene, on, commands)

    def _agrees(self, given: HeadInput) -> bool:
        """Whether the message says yes rather than no, read as the answer to a confirmation."""
        answer = stance(given.turn.text)
        if answer.whole and (answer.agrees or answer.refuses):
            return answer.agrees
        question = Confirming(action=view.last_said(given.turn))
        turn = given.turn.model_copy(update={"confirming": question, "awaiting": None})
        p = self.probabilities(given._replace(turn=turn))
        return p["affirm"] >= p["deny"]

    def to_state(self) -> HeadState:
        """All that it knows."""
        arrays: dict[str, NDArray[Any]] = {"weights": self.weights.astype(np.float16), "scales": self.scales}
        sure = [list(self.sure.factors), self.sure.offset]
        settings: dict[str, Any] = {
            "format": _FORMAT, "acts": list(ACTS), "sure": sure,
        }  # fmt: skip
        if self.flows:
            arrays["flows"] = self.flow_weights.astype(np.float16)
            settings["flows"] = list(self.flows)
        return HeadState(arrays, settings)

    @classmethod
    def from_state(cls, state: HeadState) -> Self:
        """The inverse of :meth:`to_state`.

        Raises:
            ArtifactError: it is of other acts, or of another format.
        """
        settings = state.settings
        if settings["format"] != _FORMAT or settings["acts"] != list(ACTS):
            raise ArtifactError("The head of acts is of another format", remedy="Compile the program again.")
        factors, offset = settings["sure"]
        sure = Sure(tuple(float(value) for value in factors), float(offset))
        flows, added = settings.get("flows", ()), state.arrays.get("flows")
        return cls(state.arrays["weights"], state.arrays["scales"], sure, flows, added)


def signs(p: Mapping[str, float], scene: Scene, on: set[str], commands: Sequence[Command]) -> list[float]:
    """What tells how likely a decision is right, in numbers of about 1."""
    shares = [max(1e-3, share if act in on else 1.0 - share) for act, share in p.items()]
    best = sorted(p.values(), reverse=True)
    values = [c for c in commands if c.order == "value"]
    awaited = scene.awaited
    loose = awaited is not None and not awaited.pattern and awaited.type in ("text", "list", "boolean")
    slot_names = [command.slot_name for command in values]
    # A text that only its place in the message tells.
    free = any(
        slot.name in slot_names and slot.type in ("text", "list") and not slot.pattern
        for name in scene.starting
        for slot in scene.tasks[name].slots
    )
    return [
        float(np.sum(np.log(shares))),
        float(np.log(min(shares))),
        best[0] - best[1],
        float(scene.turn.confirming is not None),
        float(awaited is not None),
        float(bool(scene.starting)),
        float(len(commands) > 1),
        float(bool(values)),
        float((loose and bool(values)) or free),
        float(len(scene.turn.text.split()) > 8),
    ]


def metadata_of(data: bytes) -> dict[str, str]:
    """The metadata of safetensors data, which the library returns for files only: the JSON that its length precedes."""
    held: dict[str, str] = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])["__metadata__"]
    return held


def read_shipped(package: str) -> tuple[HeadState, dict[str, str]]:
    """The state of the head that a package of ours ships, and what its file says of itself.

    Args:
        package: With the file; its metadata are the ``head``'s settings, the fingerprint of the ``embedder``, and what
            the head was fitted on.
    """
    data = files(package).joinpath(WEIGHTS).read_bytes()
    metadata = metadata_of(data)
    return HeadState(load(data), json.loads(metadata["head"])), metadata


@lru_cache(maxsize=1)
def _shipped() -> tuple[Acts, str]:
    state, metadata = read_shipped(__package__)
    return Acts.from_state(state), metadata["embedder"]


def shipped_head(embedder: EmbedderPort | None) -> Acts | None:
    """The shipped head, if it was fitted with this embedding model; else None. Read at the first call."""
    if embedder is None:
        return None
    head, fingerprint = _shipped()
    return head if fingerprint == embedder.fingerprint else None
