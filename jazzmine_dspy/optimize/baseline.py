"""The baseline that every program has to beat: TF-IDF with logistic regression."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jazzmine_dspy.models.base import Shared, sha256
from jazzmine_dspy.models.errors import DatasetError, EmbeddingError
from jazzmine_dspy.program.clauses import NONE
from jazzmine_dspy.program.ports import HeadInput, SelectionOutput

_STEPS = 300


class TfidfEmbedder(Shared):
    """TF-IDF over words and pairs of words, behind the embedder's port.

    A vector has length 1, or 0 where the text has no known word. Not for recall: it knows only the words that
    it was fitted on.
    """

    def __init__(self, vectorizer: Any) -> None:
        self._vectorizer = vectorizer
        vocabulary = {str(word): int(column) for word, column in vectorizer.vocabulary_.items()}
        self.size = self.feature_size = len(vocabulary)
        """Length of a vector."""
        self.fingerprint = "tfidf:" + sha256(
            [vocabulary, sha256(np.asarray(vectorizer.idf_, np.float64).tobytes())]
        )
        """SHA-256 over vocabulary and weights."""

    @classmethod
    def fit(cls, texts: Sequence[str]) -> TfidfEmbedder:
        """Learn words and their weights.

        Raises:
            EmbeddingError: the texts hold no word.
        """
        from sklearn.feature_extraction.text import TfidfVectorizer

        try:
            return cls(TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True).fit(list(texts)))
        except ValueError as error:
            raise EmbeddingError(
                "The texts of the baseline hold no words", remedy="Give it labelled turns."
            ) from error

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of shape (number of texts, size), float32."""
        if not texts:
            return np.empty((0, self.size), dtype=np.float32)
        return np.asarray(self.sparse(texts).toarray(), dtype=np.float32)

    def sparse(self, texts: Sequence[str]) -> Any:
        """The same as a sparse matrix: of thousands of texts the dense one would be gigabytes."""
        return self._vectorizer.transform(list(texts))

    def features(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """What the head sees: the same vectors."""
        return self.embed(texts)


class TfidfHead(Shared):
    """The classic classifier as a selection head: it sees the message's words alone, neither state nor recall.

    Args:
        model: A fitted ``LogisticRegression`` over the embedder's vectors; its classes are flows and ``"none"``.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self.labels = tuple(map(str, model.classes_))
        self.fingerprint = sha256(
            [list(self.labels), sha256(model.coef_.tobytes()), sha256(model.intercept_.tobytes())]
        )
        """SHA-256 over labels and weights."""

    def texts(self, message: str) -> tuple[str, ...]:
        """The message: it is one wish."""
        return (message,)

    def predict(self, given: HeadInput) -> SelectionOutput:
        """The likeliest of the labels that may be chosen.

        Raises:
            ValueError: the features are not those of the embedder that belongs to this head.
        """
        p = self._model.predict_proba(np.reshape(given.features, (1, -1)))[0]
        may = {*given.flows, NONE}
        order = np.argsort(-p, kind="stable")
        ranking = tuple((self.labels[place], float(p[place])) for place in order if self.labels[place] in may)
        if not ranking:
            return SelectionOutput((), 0.0, (), 0.0, "nothing that may be chosen was learnt")
        label, confidence = ranking[0]
        none = dict(ranking).get(NONE, 0.0)
        return SelectionOutput(() if label == NONE else (label,), confidence, ranking, 1.0 - none, "TF-IDF")


def tfidf_baseline(texts: Sequence[str], labels: Sequence[str], seed: int) -> tuple[TfidfEmbedder, TfidfHead]:
    """The classic text classifier: TF-IDF of words and pairs of words, logistic regression with C = 100.

    Args:
        texts: Messages as they were written.
        labels: A flow's name, or ``"none"``, for each.
        seed: For the solver.

    Returns:
        An embedder for words, and a head that takes its features; both are to be bound together.

    Raises:
        DatasetError: fewer than two labels, or not one label for each text.
        EmbeddingError: the texts hold no word.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    names = sorted(set(labels))
    if len(names) < 2 or len(texts) != len(labels):
        raise DatasetError(
            "The baseline needs texts of two labels at least, each with a label",
            where=f"{len(texts)} texts, {len(labels)} labels, {len(names)} of them different",
            remedy="Label more turns.",
        )
    embedder = TfidfEmbedder.fit(texts)
    model = LogisticRegression(C=100.0, max_iter=_STEPS, random_state=seed)
    with warnings.catch_warnings():
        # Stopped at its limit it is as good to 0.1 %, and a thousand flows end within minutes.
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(embedder.sparse(texts), list(labels))
    return embedder, TfidfHead(model)
