"""An embedding model with a cache on disk, so that many small compilations embed each text once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jazzmine_dspy.memory.procedural.embedder import FastembedEmbedder

_CHUNK = 512


class StoredEmbedder:
    """The bundled embedding model, with vectors and features of texts cached in a file.

    Args:
        file: The cache, which :meth:`save` writes. It may not exist yet.
    """

    def __init__(self, file: Path) -> None:
        self._file, self._model = file, FastembedEmbedder("minilm")
        self._place: dict[str, int] = {}
        self._blocks: list[np.ndarray] = []
        self._saved = 0
        if file.is_file():
            with np.load(file, allow_pickle=False) as data:
                if str(data["model"]) == self._model.fingerprint:
                    self._blocks = [data["rows"]]
                    self._place = {str(text): place for place, text in enumerate(data["texts"])}
                    self._saved = len(self._place)
        self._rows = np.concatenate(self._blocks) if self._blocks else np.zeros((0, self._width), np.float32)

    @property
    def _width(self) -> int:
        return self._model.size + self._model.feature_size

    @property
    def fingerprint(self) -> str:
        """Of the model."""
        return self._model.fingerprint

    @property
    def tokenizer_file(self) -> Path | None:
        """Of the model; the reader needs it."""
        return self._model.tokenizer_file

    @property
    def size(self) -> int:
        """Length of a vector."""
        return self._model.size

    @property
    def feature_size(self) -> int:
        """Length of a row of features."""
        return self._model.feature_size

    def __deepcopy__(self, memo: dict[int, Any]) -> StoredEmbedder:
        return self

    def _rows_of(self, texts: Sequence[str]) -> np.ndarray:
        missing = [text for text in dict.fromkeys(texts) if text not in self._place]
        for start in range(0, len(missing), _CHUNK):
            some = missing[start : start + _CHUNK]
            rows = np.hstack([self._model.embed(some), self._model.features(some)])
            self._place |= {text: len(self._place) + number for number, text in enumerate(some)}
            self._rows = np.concatenate([self._rows, rows]) if len(self._rows) else rows
        return self._rows[[self._place[text] for text in texts]] if len(texts) else self._rows[:0]

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of length 1."""
        return np.ascontiguousarray(self._rows_of(texts)[:, : self.size])

    def features(self, texts: Sequence[str]) -> np.ndarray:
        """Features for heads."""
        return np.ascontiguousarray(self._rows_of(texts)[:, self.size :])

    def save(self) -> None:
        """Write all rows, if there are new ones."""
        if len(self._place) == self._saved:
            return
        self._file.parent.mkdir(parents=True, exist_ok=True)
        part = self._file.with_suffix(".part.npz")
        np.savez(part, rows=self._rows, texts=np.array(list(self._place)), model=self.fingerprint)
        part.replace(self._file)
        self._saved = len(self._place)
