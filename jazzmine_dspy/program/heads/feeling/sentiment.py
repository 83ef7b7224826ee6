"""The sentiment of a message: probabilities that it is negative, positive and furious, and the score that they make."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jazzmine_dspy.models.language import words
from jazzmine_dspy.program.heads.acts.view import hashed
from jazzmine_dspy.program.heads.feeling.linear import Linear, fit_linear

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.floating[Any]]

ANGRY = -0.6
"""At or below it a message is clearly annoyed."""

LEAST = 0.2
"""A message whose score is nearer to 0 is neutral."""

FALSE_ALARMS = 0.01
"""Share of other messages that may pass for angry, on rows that the head had not learnt."""

_UPPER, _STYLE = 8.0, 0.5
_CAPITALS = re.compile(r"\b[A-Z]{3,}\b")
_SMILE = re.compile(
    "[:;]-?[)D]|<3|[\U0001f600-\U0001f60f\U0001f642\U0001f64c\U0001f970\u2764\U0001f44d\U0001f389]"
)
_FROWN = re.compile(":-?\\(|[\U0001f621\U0001f92c\U0001f620\U0001f624\U0001f644\U0001f61e\U0001f622]")
_ENGLISH = words(
    "the a an is are was were be am do does did have has had i you it this that they we he she my your and or not no "
    "yes yeah ok okay to of in on at for with from by but if so please thanks thank hi hello hey what when where why "
    "how who which can could will would should get got me us them up out off all any some there here just now still "
    "again never nothing one two three order i'm it's don't"
)
_LETTERS = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)?")
_FEWEST_WORDS = 4


def is_foreign(text: str) -> bool:
    """Whether a message is in another language than English, as far as its common words and letters tell.

    Example:
        >>> is_foreign("wo bleibt mein Paket, das ist eine Frechheit"), is_foreign("where is my parcel")
        (True, False)
    """
    said = _LETTERS.findall(text.lower())
    letters = "".join(said)
    if sum(ord(letter) > 0x24F for letter in letters) * 2 > len(letters):
        return True
    return len(said) >= _FEWEST_WORDS and sum(word in _ENGLISH for word in said) * 10 < len(said)


def row_of(text: str, message: Floats) -> Floats:
    """A message as numbers: meaning, n-grams, and how it is written.

    Args:
        text: The message.
        message: Its features.
    """
    said = text.split()
    letters = sum(character.isalpha() for character in text) or 1
    shouted = _CAPITALS.findall(text)
    plain = re.sub(r"[^\w\s]", " ", text.lower()).split()
    style = [
        "!" in text, "!!" in text, bool(re.search(r"\?\?|\?!|!\?", text)), ".." in text or "\u2026" in text,
        bool(shouted), len(shouted) >= 3, sum(c.isupper() for c in text) > 0.7 * letters and letters > 6,
        any(word in ("you", "your", "u", "ur") for word in plain), "?" in text, min(len(said), 30) / 30.0,
        bool(_SMILE.search(text)), bool(_FROWN.search(text)), 1.0 / _STYLE,
    ]  # fmt: skip
    return np.concatenate([message / _UPPER, hashed(text), np.multiply(style, _STYLE)]).astype(np.float32)


class Sentiment(NamedTuple):
    """The model of "negative", "positive" and "furious", and from which probability on each holds."""

    model: Linear
    least: tuple[float, float, float]

    def score(self, row: Floats) -> float:
        """The sentiment, from -1 to 1."""
        negative, positive, angry = self.model.probabilities(row[None])[0].astype(float).tolist()
        return round(_score(negative, positive, angry, self.least), 3)


def fit_sentiment(
    rows: Floats,
    labels: Sequence[float],
    groups: Sequence[str],
    counts: Floats,
    start: Sentiment | None = None,
) -> Sentiment:
    """Fit the head on labelled messages.

    Args:
        rows: Of :func:`row_of`.
        labels: Sentiments from -1 to 1.
        groups: Rows of one group are left out together; those of "" set no threshold.
        counts: What each row counts.
        start: Weights to stay near to.
    """
    gold = np.asarray(labels)
    right = np.stack([gold <= -LEAST, gold >= LEAST, gold <= ANGRY], axis=1)
    model, shares = fit_linear(rows, right, groups, counts, start.model if start else None)
    judged = np.array([group != "" for group in groups])
    if start is not None and judged.sum() < 100:
        return Sentiment(model, start.least)
    shares, gold = shares[judged], gold[judged]
    others = np.sort(shares[gold > ANGRY, 2])
    angry = float(others[-1 - int(FALSE_ALARMS * len(others))]) + 1e-3 if len(others) else 0.5
    grid = np.arange(0.15, 0.75, 0.025)
    pairs = itertools.product(grid, grid)
    best = max(pairs, key=lambda pair: _macro_f1(shares, gold, pair[0], pair[1]))
    return Sentiment(model, (float(best[0]), float(best[1]), max(angry, 0.2)))


def _score(negative: float, positive: float, angry: float, least: Iterable[float]) -> float:
    low, high, rage = least
    if angry >= rage and angry > positive:
        return ANGRY - (1.0 + ANGRY) * _share(angry, rage)
    if negative >= low and negative - low >= positive - high:
        return -LEAST - (-ANGRY - 0.01 - LEAST) * _share(negative, low)
    if positive >= high:
        return LEAST + (1.0 - LEAST) * _share(positive, high)
    # Not the difference of both: what is neutral neither rises nor falls over several messages.
    return 0.0


def _share(value: float, least: float) -> float:
    """How far a probability stands above its threshold, from 0 to 1."""
    return min(1.0, (value - least) / max(1e-6, 1.0 - least))


def _macro_f1(shares: Floats, gold: Floats, low: float, high: float) -> float:
    negative, positive = shares[:, 0] - low, shares[:, 1] - high
    said = np.where((negative >= 0) & (negative >= positive), -1, np.where(positive >= 0, 1, 0))
    right = np.where(gold <= -LEAST, -1, np.where(gold >= LEAST, 1, 0))
    f1s = [
        2.0 * np.sum((said == each) & (right == each)) / max(1, np.sum(said == each) + np.sum(right == each))
        for each in (-1, 0, 1)
    ]
    return float(np.mean(f1s))
