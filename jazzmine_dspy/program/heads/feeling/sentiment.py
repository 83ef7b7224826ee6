"""The sentiment of a message: probabilities that it is negative, positive and furious, and the score that they make."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.models.language import words
from jazzmine_dspy.program.heads.acts import ridge
from jazzmine_dspy.program.heads.acts.view import hashed
from jazzmine_dspy.program.ports import Floats

PENALTY = 3.0
PULL = 10.0
"""Of weights: from nothing, and away from those that the package ships."""

MOST_ROWS = 2_000
"""Rows that a run learns from: the time to fit grows with the cube of their number."""

_START = (2.0, 0.0)

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
_RAGE = re.compile(
    r"\b(?:disgust\w*|disgrace\w*|outrag\w*|furious|livid|fuming|unacceptable|not acceptable|ridiculous|pathetic|"
    r"useless|incompeten\w*|idiot\w*|stupid|scam\w*|fraud\w*|theft|thie(?:f|ves|ving)|crooks?|liars?|lied|lying|"
    r"cowboys|clowns?|joke of|a joke|garbage|shambles|appalling|atrocious|dreadful|abysmal|terrible|horr\w+|awful|"
    r"worst|hate|shame(?:ful)? on|shameful|how dare|nerve to|what the (?:hell|heck|fuck)|wtf|ffs|bloody|fuck\w*|"
    r"bullshit|crap|damn|lawyer|solicitor|court|police|sue|ombudsman|unbelievable|insult\w*|sick of|fed up|tired of|"
    r"had it with|had enough|never again|(?:out of|los\w+) patience|disappoint\w*|rude|ruined|wasted?|"
    r"(?:nobody|no one) (?:cares|came|called))\b",
    re.IGNORECASE,
)
_CHASING = re.compile(
    r"\b(?:how (?:many|much) (?:more )?times?|(?:second|third|fourth|fifth|\d+(?:st|nd|rd|th)) time|yet again|"
    r"still (?:no|not|nothing|waiting)|again and again|over and over|keep (?:asking|saying|telling|sending|charging)|"
    r"already (?:told|said|gave|sent|given|typed)|(?:like|as) i said|told you|are you (?:kidding|serious|joking|deaf|"
    r"blind|insane)|do you (?:even|people|ever)|can(?:'t)? (?:someone|anybody|you people)|you people|you lot|"
    r"waste of|come on|seriously|hours?|weeks?|months?|wait(?:ed|ing))\b",
    re.IGNORECASE,
)
_MOCKING = re.compile(
    r"^\W*(?:(?:oh|wow|well|yeah)\W+)?(?:(?:isn'?t that|how|so|just|what an?) )?(?:nice|great|brilliant|lovely|kind|"
    r"wonderful|congrat\w+|bravo|fantastic|amazing|glad|thanks|cheers|\d stars)\b.*\b(?:another|again|broken?|late|"
    r"wrong|lost|los(?:e|ing)|never|still|charg\w+|fee|wait\w*|cancel\w*|fail\w*|nothing|nobody|closed|down)\b",
    re.IGNORECASE,
)
"""Praise that is followed by what went wrong."""

_CONTRAST = re.compile(r"\b(?:but|though|although|however|except|shame|pity)\b", re.IGNORECASE)

_WARM = re.compile(
    r"\b(?:(?<!no )thanks?|thank you|thx|ty|cheers|ta|love(?:ly|d)?|brilliant|perfect|great|amazing|awesome|"
    r"wonderful|fantastic|appreciate\w*|star|legends?|kind|helpful|happy|glad|impressed|best|delighted|beautiful|excellent|superb|yay|"
    r"phew|grateful|bless|sweet|nice)\b",
    re.IGNORECASE,
)
_ENGLISH = words(
    "the a an is are was were be am do does did have has had i you it this that they we he she my your and or not no "
    "yes yeah ok okay to of in on at for with from by but if so please thanks thank hi hello hey what when where why "
    "how who which can could will would should get got me us them up out off all any some there here just now still "
    "again never nothing one two three order i'm it's don't"
)
_LETTERS = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)?")
_FEWEST_WORDS, _WORDS_PER_ENGLISH = 4, 10
"""A message of at least 4 words has one common English word in 10."""


def is_foreign(text: str) -> bool:
    """Whether a message is in another language than English, as far as its common words and letters tell.

    Example:
        >>> is_foreign("wo bleibt mein Paket, das ist eine Frechheit"), is_foreign("where is my parcel")
        (True, False)
    """
    tokens = _LETTERS.findall(text.lower())
    letters = "".join(tokens)
    if sum(ord(letter) > 0x24F for letter in letters) * 2 > len(letters):
        return True
    english = sum(word in _ENGLISH for word in tokens) + len(_RAGE.findall(text)) + len(_WARM.findall(text))
    return len(tokens) >= _FEWEST_WORDS and english * _WORDS_PER_ENGLISH < len(tokens)


def limits(text: str) -> tuple[float, float] | None:
    """The lowest and the highest score of a message whose feeling words contradict each other; None for any other.

    Sarcasm is never positive. Praise next to a complaint is at most slightly negative.

    Example:
        >>> limits("oh great, another delay"), limits("lovely lamp, but the box was awful"), limits("lovely lamp")
        ((-1.0, 0.0), (-0.3, 0.0), None)
    """
    if _MOCKING.search(text):
        return -1.0, 0.0
    if _WARM.search(text) and (_CONTRAST.search(text) or _RAGE.search(text)):
        return -0.3, 0.0
    return None


def sentiment_row(text: str, message: Floats) -> Floats:
    """A message as numbers: meaning, n-grams, words for feelings, and how it is written.

    Args:
        text: The message.
        message: Its features.
    """
    said = text.split()
    letters = sum(character.isalpha() for character in text) or 1
    shouted = _CAPITALS.findall(text)
    plain = re.sub(r"[^\w\s]", " ", text.lower()).split()
    rage, chasing, warm = len(_RAGE.findall(text)), bool(_CHASING.search(text)), len(_WARM.findall(text))
    style = [
        "!" in text, "!!" in text, bool(re.search(r"\?\?|\?!|!\?", text)), ".." in text or "\u2026" in text,
        bool(shouted), len(shouted) >= 3, sum(c.isupper() for c in text) > 0.7 * letters and letters > 6,
        any(word in ("you", "your", "u", "ur") for word in plain), "?" in text, min(len(said), 30) / 30.0,
        bool(_SMILE.search(text)), bool(_FROWN.search(text)), 1.0 / _STYLE,
        rage > 0, rage > 1, chasing, rage > 0 and chasing, bool(_MOCKING.search(text)), warm > 0, warm > 1,
        warm > 0 and (rage > 0 or chasing), len(said) > 25,
    ]  # fmt: skip
    return np.concatenate([message / _UPPER, hashed(text), np.multiply(style, _STYLE)]).astype(np.float32)


class Linear(NamedTuple):
    """Weights of shape (features, outputs), and factor and offset that make log-odds of scores, (outputs, 2)."""

    weights: Floats
    scales: Floats

    def shares(self, scores: Floats) -> Floats:
        """Probabilities of scores, shape (rows, outputs)."""
        odds = np.clip(scores * self.scales[:, 0] + self.scales[:, 1], -30.0, 30.0)
        return np.asarray(1.0 / (1.0 + np.exp(-odds)))

    def probabilities(self, rows: Floats) -> Floats:
        """Probabilities of rows, shape (rows, outputs).

        Raises:
            InputError: the features are not of the embedding model that it was fitted with.
        """
        if rows.shape[1] != len(self.weights):
            raise InputError(
                f"The head of feeling was fitted on {len(self.weights)} features and not on {rows.shape[1]}",
                remedy="Bind the embedding model that it was fitted with, or compile the program again.",
            )
        return self.shares(rows @ self.weights)


def fit_linear(
    rows: Floats,
    right: NDArray[np.bool_],
    groups: Sequence[str],
    counts: Floats,
    start: Linear | None = None,
) -> tuple[Linear, Floats]:
    """Fit a model from nothing, or from another one that it stays near.

    Args:
        rows: Shape (rows, features).
        right: Shape (rows, outputs).
        groups: Rows of one group are left out together.
        counts: What each row counts, shape (rows,).
        start: The model to start from.

    Returns:
        The model, and each row's probabilities by a fit without its group.
    """
    before = np.zeros(right.shape) if start is None else rows @ start.weights
    penalty = PENALTY if start is None else PULL
    fitted = ridge.fit(rows @ rows.T, np.where(right, 1.0, -1.0) - before, counts, groups, penalty)
    scores = before + fitted.left_out
    near = [_START] * right.shape[1] if start is None else start.scales
    scales = np.array(
        [ridge.platt(scores[:, o], right[:, o], counts, near[o]) for o in range(right.shape[1])]
    )
    weights = rows.T @ fitted.dual.astype(np.float32)
    if start is not None:
        weights = start.weights + weights
    made = Linear(weights.astype(np.float16).astype(np.float32), scales.astype(np.float32))
    return made, made.shares(scores)


class Sentiment(NamedTuple):
    """The model of "negative", "positive" and "furious", and from which probability on each holds."""

    model: Linear
    least: tuple[float, float, float]

    def score(self, row: Floats) -> float:
        """The sentiment, from -1 to 1."""
        negative, positive, angry = self.model.probabilities(row[None])[0].astype(float).tolist()
        low, high, rage = self.least
        # Not the difference of both: what is neutral neither rises nor falls over several messages.
        score = 0.0
        if angry >= rage and angry > positive:
            score = ANGRY - (1.0 + ANGRY) * _share(angry, rage)
        elif negative >= low and negative - low >= positive - high:
            score = -LEAST - (-ANGRY - 0.01 - LEAST) * _share(negative, low)
        elif positive >= high:
            score = LEAST + (1.0 - LEAST) * _share(positive, high)
        return round(score, 3)


def fit_sentiment(
    rows: Floats,
    labels: Sequence[float],
    groups: Sequence[str],
    counts: Floats,
    start: Sentiment | None = None,
) -> Sentiment:
    """Fit the head on labelled messages.

    Args:
        rows: Of :func:`sentiment_row`.
        labels: Sentiments from -1 to 1.
        groups: Rows of one group are left out together; those of "" are left out one by one, and set no threshold.
        counts: What each row counts.
        start: Weights to stay near to.
    """
    gold = np.asarray(labels)
    right = np.stack([gold <= -LEAST, gold >= LEAST, gold <= ANGRY], axis=1)
    apart = [group or f"row {place}" for place, group in enumerate(groups)]
    model, shares = fit_linear(rows, right, apart, counts, start.model if start else None)
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
