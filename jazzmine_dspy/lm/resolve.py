"""From a name to a language model."""

from __future__ import annotations

import ast
import functools
import importlib.util
import os
from dataclasses import fields
from pathlib import Path
from typing import Any, cast

import dspy
from dspy._vendor.lm15.registry import lookup
from dspy._vendor.lm15.router import LITELLM_PROVIDER_PREFIXES
from dspy.clients.lm import _is_openai_reasoning_model
from dspy.lm15 import registered_providers

from jazzmine_dspy.lm.errors import LMNotFoundError, LMSettingsError
from jazzmine_dspy.lm.local import AsyncLocalEngine, LocalEngine, LocalSettings
from jazzmine_dspy.lm.weights import file_weights

EMBEDDED = "local/smollm2-135m"
NUM_RETRIES = 2
#: Servers that hold answers to a schema whatever the model is, by a grammar in their decoder.
_SCHEMA_SERVERS = frozenset(
    {"ollama", "ollama_chat", "hosted_vllm", "vllm", "sglang", "lm_studio", "lmstudio"}
)
_EXAMPLES = (
    f'Give "{EMBEDDED}", "openai/NAME", "ollama_chat/NAME", "anthropic/NAME" or another name that DSPy takes.'
)
_LOCAL_FIELDS = {field.name for field in fields(LocalSettings)}


class ServerLM(dspy.LM):
    """A language model whose server holds answers to schemas, though DSPy's table does not know its model."""

    @property
    def supports_response_schema(self) -> bool:
        """Always."""
        return True

    @property
    def supported_params(self) -> set[str]:
        """What DSPy's table says, and `response_format`."""
        return {*super().supported_params, "response_format"}


def resolve_lm(name: str | dspy.LM | None, **settings: Any) -> dspy.LM:
    """The language model of a name, with temperature 0, DSPy's cache off and few retries unless told
    otherwise.

    Args:
        name: "local/smollm2-135m" (the embedded model, also for None), "local/PATH.gguf", any name that DSPy
            takes, or a language model, which is returned as it is (copied with the settings, if there are
            any).
        settings: For local models those of `LocalSettings`; for others those of `dspy.LM` (`api_base`,
            `api_key`, `timeout` in seconds, ...) and `schema_support`: True or False where DSPy's table of
            models is wrong about answers held to a schema. Left out, it is taken as given for Ollama, vLLM
            and LM Studio and for `openai/` at an address of one's own (llama.cpp servers).

    Returns:
        The language model; `temperature`, `max_tokens`, `cache`, `num_retries` are settings of either kind.

    Raises:
        LMNotFoundError: The name does not resolve, or the embedded model is not installed.
        LMSettingsError: A setting is unknown to a local model, or out of range.
    """
    if name is None:
        name = EMBEDDED
    if isinstance(name, dspy.LM):
        return cast("dspy.LM", name.copy(**settings) if settings else name)
    if not isinstance(name, str) or not name.strip():
        raise LMNotFoundError("The name of the language model is empty", remedy=_EXAMPLES)
    provider, slash, model = name.partition("/")
    if not slash or not provider or not model:
        raise LMNotFoundError(f"The language model {name!r} names no provider", where=name, remedy=_EXAMPLES)
    if provider == "local":
        return _local(name, model, settings)
    return _remote(name, provider, settings)


def _local(name: str, model: str, settings: dict[str, Any]) -> dspy.LM:
    outer = {key: settings.pop(key) for key in ("temperature", "cache", "num_retries") if key in settings}
    if unknown := sorted(set(settings) - _LOCAL_FIELDS):
        raise LMSettingsError(
            f"A local model has no setting {', '.join(unknown)}",
            where=name,
            remedy=f"Settings are {', '.join(sorted(_LOCAL_FIELDS | {'temperature'}))}.",
        )
    chosen = LocalSettings(**settings)
    if name == EMBEDDED:
        weights = None
    elif model.endswith(".gguf"):
        weights = file_weights(Path(model).expanduser())
    else:
        raise LMNotFoundError(
            f"There is no embedded model {model!r}",
            where=name,
            remedy=f'Give "{EMBEDDED}" or "local/PATH.gguf".',
        )
    if importlib.util.find_spec("xllamacpp") is None:
        raise LMNotFoundError(
            "The package xllamacpp, which runs local models, is not installed",
            where=name,
            remedy="Run: pip install 'jazzmine-dspy[local]'.",
        )
    engine = LocalEngine(weights, chosen, name=Path(model).name)
    defaults = {"temperature": 0.0, "cache": False, "num_retries": 0}
    return cast(
        "dspy.LM",
        dspy.LM(
            name,
            engine=engine,
            async_engine=AsyncLocalEngine(engine),
            max_tokens=chosen.max_tokens,
            **(defaults | outer),
        ),
    )


def _remote(name: str, provider: str, settings: dict[str, Any]) -> dspy.LM:
    if not _known(provider):
        raise LMNotFoundError(f"No provider is called {provider!r}", where=name, remedy=_EXAMPLES)
    address = settings.get("api_base") or settings.get("base_url")
    address = address or os.environ.get("OPENAI_API_BASE") or os.environ.get("OPENAI_BASE_URL")
    schema = settings.pop("schema_support", None)
    if schema is None:
        schema = provider in _SCHEMA_SERVERS or (provider == "openai" and bool(address)) or None
    # Reasoning models refuse any temperature but their own.
    temperature = None if _is_openai_reasoning_model(name) else 0.0
    made = {"temperature": temperature, "cache": False, "num_retries": NUM_RETRIES, **settings}
    try:
        lm = (ServerLM if schema else _PlainLM if schema is False else dspy.LM)(name, **made)
    except (ValueError, TypeError) as error:
        raise LMSettingsError(f"DSPy refuses these settings: {error}", where=name) from error
    return cast("dspy.LM", lm)


class _PlainLM(dspy.LM):
    """A language model that is not to be asked for answers held to a schema."""

    @property
    def supports_response_schema(self) -> bool:
        return False


def _known(provider: str) -> bool:
    spelled = {spelling for each in registered_providers() for spelling in each.definition.spellings}
    if provider in LITELLM_PROVIDER_PREFIXES or provider in spelled or lookup(provider) is not None:
        return True
    if provider in _litellm_providers():
        # Otherwise LiteLLM fetches a price list from the network as it is imported.
        os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
        return True
    return False


@functools.cache
def _litellm_providers() -> frozenset[str]:
    """The provider names in LiteLLM's source: importing it to ask takes seconds."""
    spec = importlib.util.find_spec("litellm")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        try:
            tree = ast.parse((Path(folder) / "types" / "utils.py").read_text(encoding="utf-8"))
        except (OSError, SyntaxError):
            continue
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and node.name == "LlmProviders":
                return frozenset(
                    item.value.value
                    for item in node.body
                    if isinstance(item, ast.Assign)
                    and isinstance(item.value, ast.Constant)
                    and isinstance(item.value.value, str)
                )
    return frozenset()
