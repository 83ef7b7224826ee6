"""Sentence embeddings through fastembed: the default model without a network, any other by name."""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import hashlib
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jazzmine_dspy.memory.procedural import _minilm
from jazzmine_dspy.models.errors import EmbeddingError, format_error
from jazzmine_dspy.models.forking import leave_to_parent, renew_in_children, skip_native_exit

if TYPE_CHECKING:
    import numpy as np
    from fastembed import TextEmbedding
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]

_UPPER, _LOWER = 8.0, 5.6
"""Lengths of the two layers in :meth:`FastembedEmbedder.features`: 1 : 0.7 by held-out turns of BANKING77. The scale is
for the heads' regularization; of the first half it changes no digit, being a power of 2."""

_FEW = 4
"""Texts of a turn: so many are embedded one by one."""

_RETRY_AFTER = 60.0
"""Seconds for which a failed load is not tried again: offline, fastembed takes 39 s to give up a download."""


class FastembedEmbedder:
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
        model: str = _minilm.NAME,
        *,
        threads: int = 1,
        cache_dir: str | os.PathLike[str] | None = None,
        cache_size: int = 4096,
    ) -> None:
        self.model = model
        self._threads = threads
        self._cache_dir = None if cache_dir is None else Path(cache_dir)
        self._vectors = _Remembered(cache_size)
        self._load_lock = threading.Lock()
        self._loaded: TextEmbedding | _minilm.TwoLayers | None = None
        self._failed: tuple[float, EmbeddingError] | None = None
        self._fingerprint: str | None = _minilm.fingerprint() if model == _minilm.NAME else None
        self._size: int | None = _minilm.SIZE if model == _minilm.NAME else None
        renew_in_children(self)

    def renew_after_fork(self) -> None:
        """Take new locks: in a forked child nobody would ever give the old ones back. The weights are kept."""
        self._load_lock = threading.Lock()
        if self._loaded is not None:
            leave_to_parent(self._loaded)
            skip_native_exit()
        self._vectors.renew()

    def __deepcopy__(self, memo: dict[int, Any]) -> FastembedEmbedder:
        return self

    @property
    def fingerprint(self) -> str:
        """The model's name and a SHA-256 over its weights; ``NAME:absent`` while they are not there.

        The model is neither loaded nor downloaded for it.
        """
        if self._fingerprint is None:
            weights = self._weights()
            if weights is None:
                return f"{self.model}:absent"
            with weights.open("rb") as file:
                self._fingerprint = f"{self.model}:{hashlib.file_digest(file, 'sha256').hexdigest()}"
        return self._fingerprint

    @property
    def size(self) -> int:
        """Length of a vector."""
        if self._size is None:
            self._size = int(self._described()["dim"])
        return self._size

    @property
    def feature_size(self) -> int:
        """Length of a row of :meth:`features`."""
        return self._row_size

    def embed(self, texts: Sequence[str]) -> Vector:
        """Vectors of shape (number of texts, size), float32, of length 1.

        A text's vector does not depend on the texts beside it. Text beyond the model's length is ignored.

        Raises:
            EmbeddingError: the model is missing, damaged, or fails on a text.
        """
        import numpy as np

        return np.ascontiguousarray(self._rows(texts)[:, : self.size])

    def features(self, texts: Sequence[str]) -> Vector:
        """What heads see, of shape (number of texts, feature_size), float32; from the same pass as :meth:`embed`.

        Of ``minilm`` the mean states of its last two layers, of lengths 8 and 5.6; of other models the vectors.

        Raises:
            EmbeddingError: as of :meth:`embed`.
        """
        rows = self._rows(texts)
        if self._row_size != self.size:
            rows[:, : self.size] *= _UPPER
            rows[:, self.size :] *= _LOWER
        return rows

    def remember(self, count: int) -> None:
        """Remember this many texts at least, 3 KB each: a run that asks for the same texts again and again is spared
        their passes.
        """
        self._vectors.widen(count)

    @property
    def _row_size(self) -> int:
        return self.size * (len(_minilm.STATES) if self.model == _minilm.NAME else 1)

    def _rows(self, texts: Sequence[str]) -> Vector:
        """Shape (number of texts, row size): the vectors, and of ``minilm`` those of the layer before beside them."""
        import numpy as np

        known = self._vectors.of(texts)
        # Batches of like length: a batch is padded to its longest text.
        missing = sorted(dict.fromkeys(text for text in texts if text not in known), key=len)
        if missing:
            model = self._load()
            try:
                # A few are asked for one by one, since padding a short text to a long one takes longer than a pass.
                size = 1 if len(missing) <= _FEW else 32
                made = np.asarray(list(model.embed(missing, batch_size=size)), dtype=np.float32)
            except Exception as error:
                raise EmbeddingError(
                    f"The embedding model {self.model!r} failed: {format_error(error)}",
                    remedy="Check the text that was given to it, or choose another model.",
                ) from error
            if made.shape != (len(missing), self._row_size) or not np.isfinite(made).all():
                raise EmbeddingError(
                    f"The embedding model {self.model!r} gave no usable vectors (shape {made.shape})",
                    remedy="Choose another model.",
                )
            for half in np.split(made, self._row_size // self.size, axis=1):
                half /= np.maximum(np.linalg.norm(half, axis=1, keepdims=True), 1e-12)
            fresh = dict(zip(missing, made, strict=True))
            self._vectors.keep(fresh)
            known.update(fresh)
        rows = np.empty((len(texts), self._row_size), dtype=np.float32)
        for row, text in enumerate(texts):
            rows[row] = known[text]
        return rows

    def token_ids(self, text: str) -> list[int]:
        """Numbers of the model's tokens of a text, those that it puts at both ends included; padding is none.

        Raises:
            EmbeddingError: the model is missing or damaged.
        """
        loaded: Any = self._load()
        # Our own model keeps fastembed's tokenizer; any other is a model of fastembed, which has it inside.
        tokenize = getattr(loaded, "_tokenize", None) or loaded.model.tokenize
        [encoded] = tokenize([text])
        return [token for token, there in zip(encoded.ids, encoded.attention_mask, strict=True) if there]

    def forget(self) -> None:
        """Let remembered vectors go."""
        self._vectors.clear()

    async def aembed(self, texts: Sequence[str]) -> Vector:
        """Same as :meth:`embed`, in a thread."""
        return await asyncio.to_thread(self.embed, texts)

    async def afeatures(self, texts: Sequence[str]) -> Vector:
        """Same as :meth:`features`, in a thread."""
        return await asyncio.to_thread(self.features, texts)

    @property
    def loaded(self) -> bool:
        """Whether the next text is embedded at once: the weights are there, or were looked for in vain just now."""
        return self._loaded is not None or bool(self._failed)

    def load(self) -> None:
        """Load the weights, which the first text would do else.

        Raises:
            EmbeddingError: they cannot be loaded.
        """
        self._load()

    def _load(self) -> TextEmbedding | _minilm.TwoLayers:
        if self._loaded is not None:
            return self._loaded
        with self._load_lock:
            if self._loaded is None:
                if self._failed and time.monotonic() < self._failed[0]:
                    error = self._failed[1]
                    raise EmbeddingError(error.message, where=error.where, remedy=error.remedy)
                try:
                    self._loaded = self._open()
                except EmbeddingError as error:
                    self._failed = time.monotonic() + _RETRY_AFTER, error
                    raise
            return self._loaded

    def _open(self) -> TextEmbedding | _minilm.TwoLayers:
        try:
            from fastembed import TextEmbedding
        except ImportError as error:
            raise EmbeddingError(
                f"The embedding model {self.model!r} needs fastembed, which cannot be imported: {error}",
                remedy="Run: pip install fastembed.",
            ) from error
        try:
            if self.model == _minilm.NAME:
                folder = self._cache_dir or _minilm.default_cache_dir()
                return _minilm.load(threads=self._threads, cache_dir=folder)
            self._described()
            with _quiet():
                return TextEmbedding(self.model, threads=self._threads, **self._options(offline=_offline()))
        except EmbeddingError:
            raise
        except Exception as error:
            tried = (
                "HF_HUB_OFFLINE is set, so nothing was downloaded" if _offline() else "a download was tried"
            )
            raise EmbeddingError(
                f"The embedding model {self.model!r} cannot be loaded: {type(error).__name__}: {error}",
                where=f"looked in {self._looked()}; {tried}",
                remedy="Load it once online with HF_HUB_OFFLINE unset, or use 'minilm', which needs no hub.",
            ) from error

    def _options(self, *, offline: bool) -> dict[str, Any]:
        folder = None if self._cache_dir is None else str(self._cache_dir)
        return {"cache_dir": folder, "local_files_only": offline}

    def _looked(self) -> str:
        if self._cache_dir is not None:
            return str(self._cache_dir)
        if self.model == _minilm.NAME:
            return str(_minilm.default_cache_dir())
        from fastembed.common.utils import define_cache_dir

        return str(define_cache_dir(None))

    def _described(self) -> Mapping[str, Any]:
        """What fastembed knows of the model, without loading it."""
        from fastembed import TextEmbedding

        known = {str(each["model"]).lower(): each for each in TextEmbedding.list_supported_models()}
        found = known.get(self.model.lower())
        if found is None:
            near = difflib.get_close_matches(self.model.lower(), [_minilm.NAME, *known], n=3, cutoff=0.4)
            names = [str(known[name]["model"]) if name in known else name for name in near] or [_minilm.NAME]
            raise EmbeddingError(
                f"There is no embedding model {self.model!r}", where="the models that fastembed knows",
                remedy=f"Perhaps one of: {', '.join(names)}.",
            )  # fmt: skip
        return found

    def _weights(self) -> Path | None:
        """The model's file, where it is on this machine already."""
        from fastembed import TextEmbedding

        try:
            with _quiet():
                found = TextEmbedding(self.model, lazy_load=True, **self._options(offline=True))
            path = Path(str(getattr(found.model, "_model_dir", ""))) / str(self._described()["model_file"])
        except Exception:
            return None
        return path if path.is_file() else None


class _Remembered:
    """The vectors of the texts that were asked for last."""

    def __init__(self, size: int) -> None:
        self._size = max(0, size)
        self._lock = threading.Lock()
        self._held: OrderedDict[str, Vector] = OrderedDict()

    def renew(self) -> None:
        self._lock = threading.Lock()

    def of(self, texts: Iterable[str]) -> dict[str, Vector]:
        found = {}
        with self._lock:
            for text in texts:
                if text in self._held:
                    self._held.move_to_end(text)
                    found[text] = self._held[text]
        return found

    def clear(self) -> None:
        with self._lock:
            self._held.clear()

    def widen(self, size: int) -> None:
        with self._lock:
            self._size = max(self._size, size)

    def keep(self, vectors: Mapping[str, Vector]) -> None:
        with self._lock:
            for text, vector in vectors.items():
                # A copy, or one remembered vector would keep its whole batch alive.
                self._held[text] = vector.copy()
                self._held.move_to_end(text)
            while len(self._held) > self._size:
                self._held.popitem(last=False)


def _offline() -> bool:
    return os.environ.get("HF_HUB_OFFLINE", "").strip().upper() in {"1", "TRUE", "YES", "ON"}


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep fastembed from logging to stderr what is raised as an error anyway."""
    try:
        from loguru import logger
    except ImportError:
        yield
        return
    logger.disable("fastembed")
    try:
        yield
    finally:
        logger.enable("fastembed")
