"""The head that selects flows: a few small models, weighed against each other; numpy alone, about a millisecond."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jazzmine_dspy.models import Recalled, Turn
from jazzmine_dspy.models.base import Shared, canonical_json
from jazzmine_dspy.models.errors import ArtifactError, InputError
from jazzmine_dspy.program.clauses import NONE, ClauseRule
from jazzmine_dspy.program.heads import _blend
from jazzmine_dspy.program.heads._blend import NEAR, Blend, OpenSet, Space, Trust, near_enough
from jazzmine_dspy.program.heads.features import (
    SIMILARITY_SCALE,
    STATE_SIZE,
    Lexical,
    evidence,
    state_features,
)
from jazzmine_dspy.program.ports import HeadInput, HeadState, SelectionOutput

_REMEDY = "Compile the program again."
NOT_NEAR = "no flow was learnt, and none has a text near enough"
NEW_FLOW = "likeliest flow; it was not learnt, and is judged by its texts alone"
NOT_JUDGED = "the likeliest flow was not learnt, and the head cannot judge it with this embedding model"
"""Why a flow that was not learnt is chosen, is not, or is left to recall."""

FORMAT = 2
FEATURES = "selection/2"
"""Name of what a head sees of a turn; to be raised with every change of it."""
_LEXICAL = ("idf", "weights", "scales", "bias")

_EVEN, _NO_LINE, _AS_IT_IS = Blend(), OpenSet(), Trust()


class _Ranked(NamedTuple):
    names: Sequence[str]
    probabilities: NDArray[np.floating]
    plain: NDArray[np.floating]
    in_scope: float
    rejected: bool
    reason: str = ""


class SelectionHead(Shared):
    """Ranks the flows that may be chosen, and says how sure it is of its choice.

    Three parts score the flows: a linear model over the message's features and the state; one over its words and
    pieces of words; and what recall found. Their weights are fitted, so that the softmax of the sum is calibrated. A
    flow that was never learnt is scored by what recall tells of it alone. "none" is a label where the training had
    such turns; beyond it, an open-set score tells whether any flow is wanted at all. It was fitted to flows that were
    learnt: one that was not can be chosen only where a text of its own is near enough to the message.

    Args:
        labels: What was learnt, each once; "none" among them or not.
        weights: Of the linear model, shape (labels, features + 8 of the state), kept as float32.
        bias: Shape (labels,).
        lexical: The model over n-grams, of the same labels; None does without.
        blend: Weights of the parts.
        open_set: The score for "none of these".
        trust: From probabilities to confidences.
        space: For distances, where the open-set score is one.
        rule: Finds several wishes in one message; None means that a message has one.
        near: Cosine to the nearest text of a flow that was not learnt, from which on it may be chosen. None where it is
            not known for the embedding model: a turn that seems to want such a flow is left to recall.

    Raises:
        ArtifactError: sizes do not fit, or a number is not finite.

    Example:
        >>> from jazzmine_dspy.models.turn import Turn
        >>> weights = np.zeros((2, 2 + 8))
        >>> weights[:, :2] = 3 * np.eye(2)
        >>> head = SelectionHead(["refund", "none"], weights, [0.0, 0.0])
        >>> head.predict(HeadInput(Turn(text="my money"), np.array([1.0, 0.0]), [], ["refund"])).flows
        ('refund',)
    """

    def __init__(
        self,
        labels: Sequence[str],
        weights: ArrayLike,
        bias: ArrayLike,
        *,
        lexical: Lexical | None = None,
        blend: Blend = _EVEN,
        open_set: OpenSet = _NO_LINE,
        trust: Trust = _AS_IT_IS,
        space: Space | None = None,
        rule: ClauseRule | None = None,
        near: float | None = NEAR,
    ) -> None:
        self.labels = tuple(labels)
        self.weights, self.bias = _frozen(weights), _frozen(bias)
        self.lexical, self.blend, self.open_set, self.trust = lexical, blend, open_set, trust
        self.space, self.rule, self.near = space, rule, near
        count, finite = len(self.labels), np.isfinite(self.weights).all() and np.isfinite(self.bias).all()
        shapes = {self.bias.shape, self.weights.shape[:1], *([lexical.bias.shape] if lexical else [])}
        fits = self.weights.ndim == 2 and shapes == {(count,)} and self.weights.shape[1] >= STATE_SIZE
        faults = {
            "A head needs labels, each once": not self.labels or len(set(self.labels)) != count,
            "The weights of a head do not fit its labels": not fits,
            "The weights of a head are not finite": not finite,
            "A head's open-set score and its space do not fit": (open_set.kind == "mahalanobis")
            != (space is not None),
            "A head's nearness is not a cosine from 0 to 1": near is not None and not 0.0 <= near <= 1.0,
        }
        if fault := next((what for what, holds in faults.items() if holds), ""):
            where = f"{count} labels, weights {self.weights.shape}, bias {self.bias.shape}, nearness {near}"
            raise ArtifactError(fault, where=where, remedy=_REMEDY)
        self._knows_none = NONE in self.labels
        self._places = {label: place for place, label in enumerate(self.labels)}
        self._fingerprint: str | None = None
        self._columns: dict[tuple[str, ...], tuple[dict[str, int], NDArray[np.int64]]] = {}

    @property
    def fingerprint(self) -> str:
        """SHA-256 over all that it knows."""
        # Kept, since a runtime reads it on every turn and a head never changes.
        if self._fingerprint is None:
            self._fingerprint = self.to_state().fingerprint
        return self._fingerprint

    @property
    def feature_size(self) -> int:
        """Length of the features that it was trained on."""
        return int(self.weights.shape[1]) - STATE_SIZE

    def texts(self, message: str) -> tuple[str, ...]:
        """The message, and the parts of it that may be wishes of their own; none without a rule for them."""
        return (message, *(() if self.rule is None else self.rule.parts(message)))

    def predict(self, given: HeadInput) -> SelectionOutput:
        """The flows that a message wants, with probabilities for all that may be chosen.

        Raises:
            InputError: features of another size than the head was trained on, or not finite; or there is nothing to
                go by: recall tells nothing, and no flow was learnt.
        """
        flows = tuple(dict.fromkeys(name for name in given.flows if name != NONE))
        if not flows:
            return SelectionOutput((), 1.0, (), 0.0, "no flow may be chosen")
        hidden = tuple(
            name for name in dict.fromkeys(given.hidden) if name in self._places and name not in flows
        )
        told = [one for one in given.recalled if one.name in self._column((*flows, *hidden))[0]]
        if not any(one.similarity or one.support for one in told):
            return self._among(given, flows, hidden, None)
        far: set[str] = set()
        if self.near is not None:
            # Flows that were not learnt and have no text near enough to the message are as if they were not there.
            near = {one.name for one in told if one.similarity >= self.near}
            far = {name for name in flows if name not in self._places and name not in near}
        if not far:
            return self._among(given, flows, hidden, told)
        if len(far) == len(flows):
            in_scope = near_enough(max(one.similarity for one in told), self.near or 0.0)
            sure = float(self.trust.of_none(1.0 - in_scope))
            ranking = (NONE, 1.0 - in_scope), *((name, 0.0) for name in flows)
            return SelectionOutput((), sure, ranking, in_scope, NOT_NEAR)
        said = self._among(
            given,
            tuple(name for name in flows if name not in far),
            hidden,
            [one for one in told if one.name not in far],
        )
        return said._replace(ranking=(*said.ranking, *((name, 0.0) for name in flows if name in far)))

    def _among(
        self,
        given: HeadInput,
        flows: tuple[str, ...],
        hidden: tuple[str, ...],
        told: Sequence[Recalled] | None,
    ) -> SelectionOutput:
        """Select among flows that were learnt or are near; ``told`` is None where the memory cannot tell how near."""
        # Judged among all flows, so that "unlike all" means the same for a lone one; chosen among those that may be.
        whole = self._ranked(given.features, given.turn.text, given.turn, told, (*flows, *hidden))
        ranking = _ordered(whole)
        if whole.reason == NOT_JUDGED:
            return SelectionOutput((), 0.0, ranking, whole.in_scope, NOT_JUDGED, left=True)
        if hidden:
            elsewhere = ranking[0] if ranking[0][0] in hidden else None
            ranking = tuple(one for one in ranking if one[0] in flows or one[0] == NONE)
            if elsewhere is not None and not whole.rejected:
                sure = float(self.trust.of_flow(elsewhere[1], whole.in_scope))
                return SelectionOutput(
                    (), sure, ranking, whole.in_scope, "a flow that may not be chosen now is likelier"
                )
        if self.rule is not None and any(name in self._places for name in flows):
            # Before the open set: two wishes in one message look like neither, and so like nothing known.
            texts = [clause.text for clause in given.clauses]
            spans = [
                self._ranked(each.features, each.text, given.turn, None, flows) for each in given.clauses
            ]
            plain = [_ordered(each, plain=True) for each in (whole, *spans)]
            chosen, confidence = self.rule.decide(plain[0], texts, plain[1:])
            if len(chosen) > 1:
                return SelectionOutput(
                    tuple(chosen), float(confidence), ranking, whole.in_scope, "several wishes"
                )
        # Where "none" was not learnt, the open-set score alone decides for it.
        name, probability = next(
            one for one in ranking if one[0] != NONE or self._knows_none or whole.rejected
        )
        if whole.rejected or name == NONE:
            sure = float(self.trust.of_none(max(1.0 - whole.in_scope, dict(ranking).get(NONE, 0.0))))
            reason = "nothing like it was learnt" if whole.rejected else "no flow is likely"
            return SelectionOutput((), sure, ranking, whole.in_scope, whole.reason or reason)
        sure = float(self.trust.of_flow(probability, whole.in_scope))
        return SelectionOutput((name,), sure, ranking, whole.in_scope, whole.reason or "likeliest flow")

    def _ranked(
        self,
        features: NDArray[Any],
        text: str,
        turn: Turn,
        told: Sequence[Recalled] | None,
        flows: tuple[str, ...],
    ) -> _Ranked:
        row = self._row(features, turn)
        column, places = self._column(flows)
        learnt = places >= 0
        linear = np.where(learnt, (self.weights @ row + self.bias)[places], 0.0)[None]
        lexical, known = np.zeros_like(linear), 0.0
        if self.lexical is not None:
            lexical_scores, known = self.lexical.scores(text)
            lexical = np.where(learnt, lexical_scores[places], 0.0)[None]
        tells = evidence(told, column, turn.flow)[None] if told is not None else None
        best = np.array([max((one.score for one in told or ()), default=0.0)])
        runs = np.array([float(turn.load == "busy")])
        z = _blend.scores(self.blend, linear, lexical, tells, best, runs, learnt)
        if (z[:, :-1] <= _blend.NOTHING).all():
            raise InputError(
                "The head learnt none of these flows, and recall has no scores for them",
                remedy="Compile the program again, or see that recall answers with similarities.",
            )
        away = np.zeros(1) if self.space is None else self.space.distance(row[None, :-STATE_SIZE])
        words = np.array([len(text.split())])
        sign_row = _blend.signs(
            z, tells, np.where(learnt, lexical, -1.0), away, np.array([known]), words, runs
        )
        score = self.open_set.score(sign_row)
        # Without recall the scores are on another scale than the one that the line was fitted to.
        in_scope = float(self.open_set.in_scope(score)[0]) if tells is not None else 1.0
        rejected, reason = bool(tells is not None and score[0] < self.open_set.threshold), ""
        likeliest = int(z[0].argmax())
        if not learnt[likeliest] and tells is not None and likeliest < len(flows):
            # The open set's line was fitted to flows that were learnt.
            rejected, in_scope, reason = False, 0.5, NOT_JUDGED
            if self.near is not None:
                in_scope = near_enough(tells[0, likeliest, 1] / SIMILARITY_SCALE, self.near)
                reason = NEW_FLOW
        p = plain = _blend.softmax(z[0])
        if not learnt[-1]:
            p = np.append(p[:-1] * in_scope, 1.0 - in_scope)
        return _Ranked((*flows, NONE), p, plain, in_scope, rejected, reason)

    def _row(self, features: NDArray[Any], turn: Turn) -> NDArray[np.float32]:
        features = np.asarray(features, dtype=np.float32)
        if features.shape != (self.feature_size,):
            raise InputError(
                f"The head was trained on {self.feature_size} features",
                where=f"features of shape {features.shape}",
                remedy="Bind the embedding model that the program was compiled with.",
            )
        if not np.isfinite(features).all():
            raise InputError("Features for a head are not finite", remedy="Check the embedding model.")
        return np.concatenate([features, state_features(turn)])

    def _column(self, flows: tuple[str, ...]) -> tuple[dict[str, int], NDArray[np.int64]]:
        """Where each flow stands in the scores, and where its label does among the labels; -1 if it was not learnt."""
        known = self._columns.get(flows)
        if known is None:
            places = np.array([self._places.get(name, -1) for name in (*flows, NONE)])
            known = {name: number for number, name in enumerate(flows)}, places
            if len(self._columns) >= 64:
                self._columns.clear()
            self._columns[flows] = known
        return known

    def to_state(self) -> HeadState:
        """All that it knows."""
        arrays: dict[str, NDArray[Any]] = {"weights": self.weights, "bias": self.bias}
        settings: dict[str, Any] = {
            "format": FORMAT,
            "features": FEATURES,
            "labels": list(self.labels),
            "blend": self.blend._asdict(),
            "trust": self.trust._asdict(),
            "open_set": self.open_set._asdict() | {"threshold": max(self.open_set.threshold, -1e30)},
            "rule": None if self.rule is None else self.rule.model_dump(mode="json"),
        }
        if self.near != NEAR:
            settings["near"] = self.near
        if self.lexical is not None:
            grams = canonical_json([self.lexical.words, self.lexical.pieces]).encode()
            arrays["lexical.grams"] = np.frombuffer(grams, dtype=np.uint8)
            arrays |= {f"lexical.{name}": getattr(self.lexical, name) for name in _LEXICAL}
        if self.space is not None:
            arrays |= {"space.whitening": self.space.whitening, "space.means": self.space.means}
        return HeadState(arrays, settings)

    @classmethod
    def from_state(cls, state: HeadState) -> SelectionHead:
        """The inverse of :meth:`to_state`.

        Raises:
            ArtifactError: of another format, or of other features, or what it holds does not fit together.
        """
        arrays, settings = state
        if settings["format"] != FORMAT:
            raise ArtifactError(f"The head has the format {settings['format']}, this version reads {FORMAT}")
        if settings["features"] != FEATURES:
            raise ArtifactError(f"The head was trained on other features ({settings['features']})")
        lexical = None
        if "lexical.grams" in arrays:
            words, pieces = json.loads(arrays["lexical.grams"].tobytes())
            lexical = Lexical(words, pieces, **{name: arrays[f"lexical.{name}"] for name in _LEXICAL})
            rows = len(words) + len(pieces)
            if {len(lexical.idf), len(lexical.weights), len(lexical.scales)} != {rows}:
                raise ArtifactError("The n-grams of a head do not fit its weights")
        near, rule = settings.get("near", NEAR), settings["rule"]
        return cls(
            settings["labels"],
            arrays["weights"],
            arrays["bias"],
            lexical=lexical,
            blend=_from_json(Blend, settings["blend"]),
            open_set=_from_json(OpenSet, settings["open_set"]),
            trust=_from_json(Trust, settings["trust"]),
            space=Space(arrays["space.whitening"], arrays["space.means"])
            if "space.means" in arrays
            else None,
            rule=None if rule is None else ClauseRule.model_validate(rule),
            near=None if near is None else float(near),
        )


def _from_json(kind: Any, fields: dict[str, Any]) -> Any:
    """A named tuple from its JSON form."""
    return kind(
        **{name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
    )


def _ordered(ranked: _Ranked, *, plain: bool = False) -> tuple[tuple[str, float], ...]:
    """Best first; equal ones stay as they stand. ``plain`` leaves the open set out."""
    p = ranked.plain if plain else ranked.probabilities
    return tuple((ranked.names[place], float(p[place])) for place in np.argsort(-p, kind="stable"))


def _frozen(numbers: ArrayLike) -> NDArray[np.float32]:
    """A copy of one's own that nobody can change: the fingerprint speaks for it."""
    array = np.array(numbers, dtype=np.float32, order="C")
    array.setflags(write=False)
    return array
