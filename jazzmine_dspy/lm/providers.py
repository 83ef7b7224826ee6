"""What providers accept: where a language model is reached, what holds its answers, how an answer's length is limited,
and what was refused so far.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

import dspy

from jazzmine_dspy.lm.dspy_api import is_reasoning_model
from jazzmine_dspy.lm.engines import engine_identity, unwrap

Support = Literal["schema", "static", "json", "none"]
"""What holds an answer: a schema of its own for each call, one for all calls, JSON of any form, or nothing."""

OLLAMA = frozenset({"ollama", "ollama_chat"})
SERVERS = frozenset({"hosted_vllm", "vllm", "sglang", "lm_studio", "lmstudio", "llamafile", *OLLAMA})
"""Servers that hold answers to a schema whatever the model is, by a grammar in their decoder."""
GATEWAYS = frozenset({"azure", "litellm_proxy"})
"""Their names of models are their own, so no table knows them: a schema is tried."""
_AT_V1 = frozenset({"openai", "hosted_vllm", "vllm", "sglang", "lm_studio", "lmstudio", "litellm_proxy"})

LIMIT = "max_completion_tokens"
"""The name of an answer's limit here; DSPy and LiteLLM send it under the name that the provider documents."""
CONTEXT = "context"
"""In the place of a refused setting: prompt and limit together do not fit the context."""
_LIMITS = (LIMIT, "max_tokens")

_quirks: dict[str, Quirks] = {}


@dataclass
class Quirks:
    """What is known of one model at one server.

    Args:
        refused: Names of what the provider refuses: ``temperature``, :data:`LIMIT` or ``response_format``.
        thinks: Whether its thoughts count as part of the answer, so that a short limit leaves no room for one.
        context: Tokens of context that the longest prompt so far needs; for Ollama.
    """

    refused: set[str] = field(default_factory=set)
    thinks: bool = False
    context: int = 4096


def quirks_of(lm: dspy.LM) -> Quirks:
    """What is known of a language model, inside all wrappers; shared by everyone who calls that model at its server."""
    inner, engine = unwrap(lm)
    server = _given_address(inner) if isinstance(engine, str) else engine_identity(engine)
    return _quirks.setdefault(f"{inner.model} {server}", Quirks())


class NamedLM(dspy.LM):
    """A hosted language model that reports to adapters what `schema_support` returns, beyond DSPy's table of models.

    Its attribute `schema_support` is what the setting of that name was given.
    """

    schema_support: bool | str | None = None

    @property
    def supports_response_schema(self) -> bool:
        """Whether answers are held to a schema."""
        return schema_support(self) in ("schema", "static")

    @property
    def supported_params(self) -> set[str]:
        """What DSPy's table says, and `response_format` where it is taken."""
        known = set(super().supported_params)
        return known if schema_support(self) == "none" else {*known, "response_format"}


def provider_of(lm: dspy.LM) -> str:
    """The provider in a model's name; without one it is OpenAI."""
    provider, slash, _ = str(lm.model).partition("/")
    return provider if slash else "openai"


def schema_support(lm: dspy.LM) -> Support:
    """What a language model's answers can be held to, as far as can be known without asking.

    In this order: what a provider has refused, what `schema_support` was given, what an engine of its own says, the
    kind of server, and DSPy's table of models. A model of OpenAI's that the table does not know is tried.
    """
    inner, engine = unwrap(lm)
    if "response_format" in quirks_of(lm).refused:
        return "none"
    if (declared := getattr(inner, "schema_support", None)) is not None:
        return "static" if declared == "static" else "schema" if declared else "json"
    if not isinstance(engine, str) or not isinstance(inner, dspy.LM):
        return _by_table(inner)
    provider = provider_of(inner)
    # OpenAI's own address, spelt out, is no other server.
    elsewhere = urlsplit(_given_address(inner)).hostname not in (None, "api.openai.com")
    if provider in SERVERS | GATEWAYS or (provider == "openai" and elsewhere):
        return "schema"
    by_table = _by_table(inner)
    return "schema" if by_table == "none" and provider == "openai" else by_table


def _by_table(lm: dspy.LM) -> Support:
    # A model of ours calls `schema_support` itself: here it is what DSPy says.
    of: Any = super(NamedLM, lm) if isinstance(lm, NamedLM) else lm
    if "response_format" not in of.supported_params:
        return "none"
    return "schema" if of.supports_response_schema else "json"


def _given_address(lm: dspy.LM) -> str:
    in_environment = os.environ.get("OPENAI_API_BASE") or os.environ.get("OPENAI_BASE_URL") or ""
    return str(lm.kwargs.get("api_base") or lm.kwargs.get("base_url") or in_environment)


def own_address(lm: dspy.LM) -> dict[str, str]:
    """The settings that lead to a model's server, where they differ from those given: a path that was left out."""
    name = next((key for key in ("api_base", "base_url") if lm.kwargs.get(key)), "api_base")
    address = str(lm.kwargs.get(name) or "")
    if provider_of(lm) not in _AT_V1 or "://" not in address or urlsplit(address).path.strip("/"):
        return {}
    return {name: f"{address.rstrip('/')}/v1"}


# --- the limit of an answer -------------------------------------------------------------------------------


def limit_of(settings: dict[str, Any]) -> int:
    """The limit of an answer that settings name; 0 for none."""
    return max((settings.get(name) or 0 for name in _LIMITS), default=0)


def thinking_room(lm: dspy.LM) -> int:
    """Least limit of an answer of a model that thinks first: what it thinks counts as part of it.

    Ollama's is smaller, since the context, which takes memory, has to hold it.
    """
    return 4_096 if provider_of(lm) in OLLAMA else 16_000


def sampling(lm: dspy.LM, wanted: int, refused: set[str]) -> dict[str, Any]:
    """The settings of a request that limit its answer and leave out what the provider refuses.

    The larger of the limit and the user's own is sent; a model that thinks first gets more.

    Args:
        lm: The language model.
        wanted: Tokens that the answer needs; 0 for no limit of ours.
        refused: Names of what is left out.
    """
    inner, _ = unwrap(lm)
    own = inner.kwargs
    wanted = max(wanted, limit_of(own))
    # A model that refuses a temperature is taken for one that thinks.
    thinks = quirks_of(lm).thinks or own.get("think") or "temperature" in refused
    if wanted and (thinks or is_reasoning_model(str(inner.model)) or lm.supports_reasoning):
        wanted = max(wanted, thinking_room(lm))
    made: dict[str, Any] = {name: None for name in _LIMITS if own.get(name)}
    if wanted and not {LIMIT, CONTEXT} & refused:
        made[LIMIT] = wanted
    return {**made, "temperature": None} if "temperature" in refused else made
