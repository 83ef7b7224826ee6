"""Prompt tokens of a language model's calls, counted by one tokenizer whoever answers."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
from pathlib import Path
from typing import Any

import dspy
from dspy.lm15 import Request, Response

from jazzmine_dspy.lm.engines import Wrapper, chat_messages, response_schema
from jazzmine_dspy.lm.native import wrap


@functools.cache
def _encoding() -> Any:
    """A tokenizer of large models whose file litellm brings along; litellm itself, slow to import, is not."""
    found = importlib.util.find_spec("litellm")
    assert found is not None
    assert found.submodule_search_locations
    place = Path(found.submodule_search_locations[0]) / "litellm_core_utils" / "tokenizers"
    os.environ.setdefault("TIKTOKEN_CACHE_DIR", str(place))
    return importlib.import_module("tiktoken").get_encoding("cl100k_base")


class Counting(Wrapper):
    """Hands every call on, and notes how many tokens its messages and schema have."""

    def __init__(self, inner: Any, found: list[int]) -> None:
        super().__init__(inner)
        self.found = found

    def complete(self, request: Request) -> Response:
        """The answer of the engine within."""
        response = self.inner.complete(request)
        self.found.append(tokens_of(request))
        return response


def tokens_of(request: Request) -> int:
    """Tokens of the messages and of the schema as compact JSON, which services put into the prompt."""
    schema = response_schema(request)
    written = [json.dumps(schema, separators=(",", ":"))] if schema else []
    texts = [each["content"] for each in chat_messages(request)] + written
    return sum(map(count, texts))


def count(text: str) -> int:
    """Tokens of a text."""
    return len(_encoding().encode(text, disallowed_special=()))


def counted(lm: dspy.LM) -> tuple[dspy.LM, list[int]]:
    """The language model, and the tokens of each call that it will have answered."""
    found: list[int] = []
    return wrap(lm, lambda engine: Counting(engine, found)), found
