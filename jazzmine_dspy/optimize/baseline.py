"""The baseline that every program has to beat: TF-IDF with logistic regression."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jazzmine_dspy.models._base import sha256
from jazzmine_dspy.models.errors import DatasetError, EmbeddingError
from jazzmine_dspy.program.heads import SELECTION_FEATURES, STATE_SIZE, LinearHead

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jazzmine_dspy.program.ports import EmbedderPort, HeadPort


class TfidfEmbedder:
    """TF-IDF over words and pairs of words, behind the embedder's port.

    A vector has length 1, or 0 where the text has no known word. Not for recall: it knows only the words that
    it was fitted on.
    """

    def __init__(self, vectorizer: Any) -> None:
        self._vectorizer = vectorizer
        vocabulary = {str(word): int(column) for word, column in vectorizer.vocabulary_.items()}
        self.size = len(vocabulary)
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

    def __deepcopy__(self, memo: dict[int, Any]) -> TfidfEmbedder:
        return self

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of shape (number of texts, size), float32."""
        if not texts:
            return np.empty((0, self.size), dtype=np.float32)
        return np.asarray(self._vectorizer.transform(list(texts)).toarray(), dtype=np.float32)

    async def aembed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Same as :meth:`embed`, in a thread."""
        return await asyncio.to_thread(self.embed, texts)


def tfidf_baseline(texts: Sequence[str], labels: Sequence[str], seed: int) -> tuple[EmbedderPort, HeadPort]:
    """The classic text classifier: TF-IDF of words and pairs of words, logistic regression with C = 100.

    Args:
        texts: Messages as they were written.
        labels: A flow's name, or ``"none"``, for each.
        seed: For the solver.

    Returns:
        An embedder, and a head that is asked like the trained one, with ``selection_features(vector, turn)``,
        and pays no heed to the state.

    Raises:
        DatasetError: fewer than two labels, or not one label for each text.
        EmbeddingError: the texts hold no word.
    """
    from sklearn.linear_model import LogisticRegression

    names = sorted(set(labels))
    if len(names) < 2 or len(texts) != len(labels):
        raise DatasetError(
            "The baseline needs texts of two labels at least, each with a label",
            where=f"{len(texts)} texts, {len(labels)} labels, {len(names)} of them different",
            remedy="Label more turns.",
        )
    embedder = TfidfEmbedder.fit(texts)
    model = LogisticRegression(C=100.0, max_iter=5000, random_state=seed).fit(
        embedder.embed(texts), list(labels)
    )
    weights, bias = model.coef_, model.intercept_
    if len(names) == 2:
        weights, bias = np.vstack([np.zeros_like(weights), weights]), np.array([0.0, bias[0]])
    blind = np.hstack([weights, np.zeros((len(names), STATE_SIZE))])
    return embedder, LinearHead(names, blind, bias, features=SELECTION_FEATURES)
