"""Sentence embeddings through fastembed: the default model without a network, any other by name."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from jazzmine_dspy.memory.procedural import minilm
from jazzmine_dspy.models.base import Shared, forked
from jazzmine_dspy.models.errors import EmbeddingError, format_error
from jazzmine_dspy.models.parsing import cache_folder

if TYPE_CHECKING:
    from fastembed import TextEmbedding

Vector = NDArray[np.float32]

_UPPER, _LOWER = 8.0, 5.6
"""Lengths of the two layers in :meth:`FastembedEmbedder.features`: 1 : 0.7 by held-out turns of BANKING77. The scale is
for the heads' regularization; of the first half it changes no digit, being a power of 2."""

_FEW = 4
"""Texts of a turn: so many are embedded one by one."""

_RETRY_AFTER = 60.0
"""Seconds for which a failed load is not tried again: offline, fastembed takes 39 s to give up a download."""


class FastembedEmbedder(Shared):
    """Turns texts into unit vectors. Loads its model on first use; may be shared by threads.

    Args:
        model: ``minilm`` (all-MiniLM-L6-v2 in 8 bits, from installed packages, checked by hash), or the name
            of any model that fastembed knows, which is downloaded unless it is there already or
            ``HF_HUB_OFFLINE`` is set.
        threads: Threads of one inference. One is fastest under load, and always decides the same.
        cache_dir: Where model files are; default ``$JAZZMINE_CACHE_DIR`` or the user's cache folder for
            ``minilm``, fastembed's own for the others.
        cache_size: Texts whose vectors are remembered: recall and heads ask for the same ones. 3 KB each.

    Raises:
        EmbeddingError: on first use, where the model is unknown, missing, damaged, or fails.

    Example:
        >>> embedder = FastembedEmbedder()
        >>> embedder.size, embedder.fingerprint[:7]
        (384, 'minilm:')
    """

    def __init__(
        self,
        model: str = minilm.NAME,
        *,
        threads: int = 1,
        cache_dir: str | os.PathLike[str] | None = None,
        cache_size: int = 4096,
    ) -> None:
        self.model = model
        self._threads = threads
        self._cache_dir = None if cache_dir is None else Path(cache_dir)
        self._cache_size = max(0, cache_size)
        self._vectors: OrderedDict[str, Vector] = OrderedDict()
        self._cache_lock, self._load_lock = threading.Lock(), threading.Lock()
        self._loaded: TextEmbedding | minilm.TwoLayers | None = None
        self._failed: tuple[float, EmbeddingError] | None = None
        self._size: int | None = minilm.SIZE if model == minilm.NAME else None
        self._pid = os.getpid()

    @property
    def fingerprint(self) -> str:
        """The model's name with the digests of its files; of other models than ``minilm`` with fastembed's version.

        The model is neither loaded nor downloaded for it.
        """
        if self.model == minilm.NAME:
            return minilm.fingerprint()
        return f"{self.model}:fastembed-{version('fastembed')}"

    @functools.cached_property
    def tokenizer_file(self) -> Path | None:
        """The file of the tokenizer of ``minilm``, which the package's reader uses too; None for other models.

        Raises:
            EmbeddingError: it is missing, or is not the expected one.
        """
        return minilm.tokenizer_file() if self.model == minilm.NAME else None

    @property
    def size(self) -> int:
        """Length of a vector."""
        if self._size is None:
            self._size = int(self._description()["dim"])
        return self._size

    @property
    def feature_size(self) -> int:
        """Length of a row of :meth:`features`."""
        return self.size * (len(minilm.STATES) if self.model == minilm.NAME else 1)

    @property
    def in_process(self) -> bool:
        """Whether nothing but this process is needed for a vector, and the model is loaded."""
        return self._loaded is not None

    def embed(self, texts: Sequence[str]) -> Vector:
        """Vectors of shape (number of texts, size), float32, of length 1.

        A text's vector does not depend on the texts beside it. Text beyond the model's length is ignored.

        Raises:
            EmbeddingError: the model is missing, damaged, or fails on a text.
        """
        return np.ascontiguousarray(self._rows(texts)[:, : self.size])

    def features(self, texts: Sequence[str]) -> Vector:
        """What heads see, of shape (number of texts, feature_size), float32; from the same pass as :meth:`embed`.

        Of ``minilm`` the mean states of its last two layers, of lengths 8 and 5.6; of other models the vectors.

        Raises:
            EmbeddingError: as of :meth:`embed`.
        """
        rows = self._rows(texts)
        if self.feature_size != self.size:
            rows[:, : self.size] *= _UPPER
            rows[:, self.size :] *= _LOWER
        return rows

    def set_cache_size(self, count: int) -> None:
        """Cache this many texts at least, 3 KB each: a run that embeds the same texts many times needs one pass."""
        with self._cache_lock:
            self._cache_size = max(self._cache_size, count)

    def clear_cache(self) -> None:
        """Drop cached vectors."""
        with self._cache_lock:
            self._vectors.clear()

    def _rows(self, texts: Sequence[str]) -> Vector:
        """Shape (number of texts, row size): the vectors, and of ``minilm`` those of the layer before beside them."""
        with self._cache_lock:
            known = {text: self._vectors[text] for text in texts if text in self._vectors}
            for text in known:
                self._vectors.move_to_end(text)
        # Batches of like length: a batch is padded to its longest text.
        if missing := sorted(dict.fromkeys(text for text in texts if text not in known), key=len):
            model = self.load()
            try:
                # A few are asked for one by one, since padding a short text to a long one takes longer than a pass.
                made = np.asarray(
                    list(model.embed(missing, batch_size=1 if len(missing) <= _FEW else 32)), dtype=np.float32
                )
            except Exception as error:
                raise EmbeddingError(
                    f"The embedding model {self.model!r} failed: {format_error(error)}",
                    remedy="Check the text that was given to it, or choose another model.",
                ) from error
            if made.shape != (len(missing), self.feature_size) or not np.isfinite(made).all():
                raise EmbeddingError(
                    f"The embedding model {self.model!r} gave no usable vectors (shape {made.shape})",
                    remedy="Choose another model.",
                )
            for half in np.split(made, self.feature_size // self.size, axis=1):
                half /= np.maximum(np.linalg.norm(half, axis=1, keepdims=True), 1e-12)
            fresh = dict(zip(missing, made, strict=True))
            known.update(fresh)
            with self._cache_lock:
                # Copies, or one cached vector would keep its whole batch alive.
                self._vectors.update({text: vector.copy() for text, vector in fresh.items()})
                while len(self._vectors) > self._cache_size:
                    self._vectors.popitem(last=False)
        rows = np.empty((len(texts), self.feature_size), dtype=np.float32)
        for row, text in enumerate(texts):
            rows[row] = known[text]
        return rows

    def token_ids(self, text: str) -> list[int]:
        """Numbers of the model's tokens of a text, those that it adds at both ends included; without padding.

        Raises:
            EmbeddingError: The model is missing or damaged.
        """
        model: Any = self.load().model
        [encoded] = model.tokenize([text])
        return [token for token, is_text in zip(encoded.ids, encoded.attention_mask, strict=True) if is_text]

    @property
    def loaded(self) -> bool:
        """Whether the next text is embedded, or fails, at once: after a failed load the next attempt waits a minute."""
        return self._loaded is not None or self._recent_failure() is not None

    def load(self) -> TextEmbedding | minilm.TwoLayers:
        """Load the weights, which the first text would do else.

        Raises:
            EmbeddingError: they cannot be loaded.
            InputError: this process was forked after the embedder was made.
        """
        if os.getpid() != self._pid:
            raise forked(self._pid, "the embedding model")
        if self._loaded is not None:
            return self._loaded
        with self._load_lock:
            if self._loaded is None:
                if (failure := self._recent_failure()) is not None:
                    raise EmbeddingError(failure.message, where=failure.where, remedy=failure.remedy)
                try:
                    self._loaded = self._open()
                except EmbeddingError as error:
                    self._failed = time.monotonic() + _RETRY_AFTER, error
                    raise
            return self._loaded

    def _open(self) -> TextEmbedding | minilm.TwoLayers:
        try:
            from fastembed import TextEmbedding

            if self.model == minilm.NAME:
                folder = self._cache_dir or cache_folder()
                return minilm.load(threads=self._threads, cache_dir=folder)
            self._description()
            is_offline = os.environ.get("HF_HUB_OFFLINE", "").strip().upper() in {"1", "TRUE", "YES", "ON"}
            with _quiet():
                return TextEmbedding(
                    self.model,
                    threads=self._threads,
                    cache_dir=str(self._cache_dir) if self._cache_dir else None,
                    local_files_only=is_offline,
                )
        except EmbeddingError:
            raise
        except Exception as error:
            raise EmbeddingError(
                f"The embedding model {self.model!r} cannot be loaded: {type(error).__name__}: {error}",
                where=f"cache_dir {self._cache_dir or 'of fastembed'}, HF_HUB_OFFLINE "
                f"{os.environ.get('HF_HUB_OFFLINE', 'is not set')}",
                remedy="Load it once online with HF_HUB_OFFLINE unset, or use 'minilm', which needs no hub.",
            ) from error

    def _recent_failure(self) -> EmbeddingError | None:
        return self._failed[1] if self._failed and time.monotonic() < self._failed[0] else None

    def _description(self) -> Mapping[str, Any]:
        """What fastembed knows of the model, without loading it."""
        from fastembed import TextEmbedding

        for known in TextEmbedding.list_supported_models():
            if str(known["model"]).lower() == self.model.lower():
                return known
        raise EmbeddingError(
            f"There is no embedding model {self.model!r}",
            where="the models that fastembed knows",
            remedy="See fastembed.TextEmbedding.list_supported_models(), or use 'minilm'.",
        )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep fastembed from logging to stderr what is raised as an error anyway."""
    from loguru import logger

    logger.disable("fastembed")
    try:
        yield
    finally:
        logger.enable("fastembed")
