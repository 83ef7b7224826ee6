"""What providers accept: where a language model is reached, what holds its answers, how an answer's length is limited,
and what was refused so far.
"""

from __future__ import annotations

import os
import re
import threading
import warnings
import weakref
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast
from urllib.parse import urlsplit

import dspy

from jazzmine_dspy.lm.dspy_api import (
    OPENAI_CHAT_PRESETS,
    ContextWindowExceededError,
    LMInvalidRequestError,
    LMUnsupportedFeatureError,
    OpenAIChatCompat,
    Request,
    is_reasoning_model,
    resolve_openai_chat_compat,
    select_backend,
)
from jazzmine_dspy.lm.engines import engine_identity, unwrap, with_engine
from jazzmine_dspy.lm.errors import LMWarning
from jazzmine_dspy.lm.ollama import PROVIDERS as OLLAMA
from jazzmine_dspy.lm.ollama import SETTINGS, ollama_engine

Support = Literal["schema", "static", "json", "none"]
"""What holds an answer: a schema of its own for each call, one for all calls, JSON of any form, or nothing."""

SERVERS = frozenset({"hosted_vllm", "vllm", "sglang", "lm_studio", "lmstudio", "llamafile", *OLLAMA})
"""Servers that hold answers to a schema whatever the model is, by a grammar in their decoder."""
GATEWAYS = frozenset({"azure", "litellm_proxy"})
"""Their names of models are their own, so no table knows them: a schema is tried."""
_AT_V1 = frozenset({"openai", "hosted_vllm", "vllm", "sglang", "lm_studio", "lmstudio", "litellm_proxy"})
_NATIVE = {
    "api_key", "api_base", "base_url", "timeout", "temperature", "max_tokens", "max_completion_tokens", "top_p",
    "seed", "stop",
}  # fmt: skip
"""Settings that DSPy's own client takes as they are."""

LIMITS = ("max_completion_tokens", "max_tokens")
"""Names that providers give the limit of an answer."""

_lock = threading.Lock()
_quirks: dict[str, Quirks] = {}
_configured: weakref.WeakKeyDictionary[dspy.LM, tuple[dict[str, Any], dspy.LM]] = weakref.WeakKeyDictionary()


@dataclass
class Quirks:
    """What is known of one model at one server.

    Args:
        form: What is asked for in the place of a schema, which the provider refuses; "" where it refused none.
        refused: Names of parameters that it refuses: ``temperature`` and those of :data:`LIMITS`.
        thinks: Whether its thoughts count as part of the answer, so that a short limit leaves no room for one.
        most: The largest limit that is sent, since it refuses larger ones; None where it refused none.
    """

    form: Literal["", "json", "none"] = ""
    refused: set[str] = field(default_factory=set)
    thinks: bool = False
    most: int | None = None


def quirks_of(lm: dspy.LM) -> Quirks:
    """What is known of a language model, inside all wrappers; shared by everyone who calls that model at its server."""
    inner, engine = unwrap(lm)
    server = _given_address(inner) if isinstance(engine, str) else engine_identity(engine)
    with _lock:
        return _quirks.setdefault(f"{inner.model} {server}", Quirks())


def address_in_environment() -> str:
    """The address of OpenAI's protocol in the environment; "" where none is set."""
    return os.environ.get("OPENAI_API_BASE") or os.environ.get("OPENAI_BASE_URL") or ""


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


def configure_for_provider(lm: dspy.LM) -> dspy.LM:
    """The language model itself, or a copy that reaches its server where the server's own documents say it is.

    Ollama is asked through its own interface, and an address without a path gets ``/v1`` where the protocol is
    OpenAI's. A model with an engine of its own stays as it is.

    Args:
        lm: Any language model, also one that is not DSPy's.
    """
    if not isinstance(lm, dspy.LM) or lm.engine != "auto" or lm.model_type != "chat":
        return lm
    provider = provider_of(lm)
    if provider not in OLLAMA:
        changed = _at_address(lm, provider)
        return _share_history(lm, lm.copy(**changed)) if changed else lm
    with _lock:
        known = _configured.get(lm)
        if known is None or known[0] != lm.kwargs:
            engine = ollama_engine(lm)
            bare = lm.copy(**{key: None for key in lm.kwargs if key in SETTINGS})
            known = _configured[lm] = (dict(lm.kwargs), _share_history(lm, with_engine(bare, engine)))
        return known[1]


def schema_support(lm: dspy.LM) -> Support:
    """What a language model's answers can be held to, as far as can be known without asking.

    In this order: what a provider has refused, what `schema_support` was given, what an engine of its own says, the
    kind of server, and DSPy's table of models. A model of OpenAI's that the table does not know is tried.
    """
    inner, engine = unwrap(lm)
    if form := quirks_of(lm).form:
        return form
    declared = getattr(inner, "schema_support", None)
    if declared is not None:
        return "static" if declared == "static" else "schema" if declared else "json"
    if not isinstance(engine, str) or not isinstance(inner, dspy.LM):
        return _by_table(inner)
    provider = provider_of(inner)
    if provider in SERVERS | GATEWAYS or (provider == "openai" and _own_address(inner)):
        return "schema"
    by_table = _by_table(inner)
    return "schema" if by_table == "none" and provider == "openai" else by_table


def disable_schema(lm: dspy.LM, form: Literal["json", "none"]) -> None:
    """Remember that the provider of a language model refuses schemas, and say so the first time.

    Args:
        lm: The language model.
        form: What it was asked for instead.
    """
    quirks = quirks_of(lm)
    with _lock:
        known, quirks.form = quirks.form, form
    if known:
        return
    instead = "plain JSON" if form == "json" else "an answer without one"
    warnings.warn(
        f"{unwrap(lm)[0].model} refuses the schema of an answer. It is asked for {instead} from now on; every answer "
        "is still checked. Set schema_support = false in lm_settings to ask for plain JSON at once.",
        LMWarning,
        stacklevel=3,
    )


def _by_table(lm: dspy.LM) -> Support:
    # A model of ours calls `schema_support` itself: here it is what DSPy says.
    of: Any = super(NamedLM, lm) if isinstance(lm, NamedLM) else lm
    if "response_format" not in of.supported_params:
        return "none"
    return "schema" if of.supports_response_schema else "json"


def _given_address(lm: dspy.LM) -> str:
    return str(lm.kwargs.get("api_base") or lm.kwargs.get("base_url") or address_in_environment())


def _own_address(lm: dspy.LM) -> str:
    address = _given_address(lm)
    # OpenAI's own address, spelt out, is no other server.
    return "" if urlsplit(address).hostname == "api.openai.com" else address


def _at_address(lm: dspy.LM, provider: str) -> dict[str, str]:
    """The settings that lead to the server, where they are other than those given."""
    name = next((key for key in ("api_base", "base_url") if lm.kwargs.get(key)), "api_base")
    given = lm.kwargs.get(name)
    named = None if given or provider != "openai" else _own_address(lm)
    address = str(given or named or "")
    if provider not in _AT_V1 or "://" not in address:
        return {}
    if urlsplit(address).path in ("", "/"):
        address = f"{address.rstrip('/')}/v1"
    changed = {name: address} if address != given else {}
    if provider == "openai" and address_in_environment() and not lm.kwargs.keys() - _NATIVE:
        # With an address in the environment DSPy takes LiteLLM, which is slow to import, and has other errors.
        changed["engine"] = "lm15"
        if not lm.kwargs.get("api_key") and not os.environ.get("OPENAI_API_KEY"):
            changed["api_key"] = "none"
    return changed


def _share_history(lm: dspy.LM, copied: dspy.LM) -> dspy.LM:
    """The copy, whose calls appear in the history of the original."""
    copied.history = lm.history
    return cast("dspy.LM", copied)


# --- the limit of an answer -------------------------------------------------------------------------------

REASONING_TOKENS = 16_000
"""Least limit of an answer of a model that thinks first: what it thinks counts as part of it."""
MORE = 4
"""How many times the limit the one retry gets whose answer broke off."""

_OPENAI = "OpenAIChatLM"
_TOO_LARGE = re.compile(
    r"too (?:large|high|many|big|long)|at most|at least|maximum|exceed|(?:less|greater|more) than|must be|<=|between"
)


def answer_limit(lm: dspy.LM, wanted: int, least: int = 0, most: int | None = None) -> dict[str, Any]:
    """The settings that limit an answer's tokens, by the name that the model takes.

    The larger of this and the user's own limit is sent, under the name that the user gave. A model that thinks first
    gets more, since its thoughts are counted too.

    Args:
        lm: The language model.
        wanted: Tokens that the answer itself needs; 0 for no limit of ours.
        least: Tokens that this one call is given at least.
        most: Tokens that the provider takes at most; None for what is known of it.
    """
    inner, engine = unwrap(lm)
    quirks = quirks_of(lm)
    wanted = max(wanted, least, *_own_limit(inner).values())
    thinks = is_reasoning_model(str(inner.model)) or quirks.refused or quirks.thinks
    if wanted and (thinks or lm.supports_reasoning or getattr(engine, "think", None)):
        wanted = max(wanted, thinking_room(engine))
    if (most := most or quirks.most) is not None:
        wanted = min(wanted, most)
    name = limit_name(lm)
    if name is None:
        name = "max_completion_tokens" if is_reasoning_model(str(inner.model)) else "max_tokens"
    made: dict[str, Any] = {name: wanted} if name and wanted else {}
    made |= {other: None for other in LIMITS if other != name and inner.kwargs.get(other)}
    if "temperature" in quirks.refused:
        made["temperature"] = None
    return made


def thinking_room(engine: Any) -> int:
    """Tokens that a model gets that thinks before it answers."""
    return int(getattr(engine, "thinking_tokens", REASONING_TOKENS))


def limit_name(lm: dspy.LM) -> str | None:
    """The name under which the limit goes out: one that is not refused, and of those the user's.

    "" where the model refuses every name, and None where nothing speaks for either.
    """
    inner, _ = unwrap(lm)
    refused = quirks_of(lm).refused
    taken = [name for name in LIMITS if name not in refused]
    if len(taken) < len(LIMITS):
        return taken[0] if taken else ""
    return next(iter(_own_limit(inner)), None)


def native_limit_name(lm: dspy.LM) -> str | None:
    """The name that DSPy's own client gives the limit, whatever name it was handed; None where it keeps that name."""
    if not isinstance(lm.engine, str):
        return None
    chosen = select_backend(lm)
    if not chosen.native or chosen.resolution.adapter != _OPENAI:
        return None
    compat = chosen.resolution.compat
    if isinstance(compat, str):
        compat = OPENAI_CHAT_PRESETS.get(compat)
    return str(resolve_openai_chat_compat(compat or OpenAIChatCompat()).max_tokens_field)


def with_limit_named(lm: dspy.LM, request: Request) -> Request:
    """The request with its limit under the name that the model takes, where the client would give it another."""
    name, limit = limit_name(lm), request.config.max_tokens
    if limit is None or name is None or not _speaks_openai(lm):
        return request
    extensions = {**(request.config.extensions or {}), **({name: limit} if name else {})}
    return replace(request, config=replace(request.config, max_tokens=None, extensions=extensions or None))


def refused_parameter(
    lm: dspy.LM, error: BaseException, sent: Mapping[str, Any], omitted: Collection[str]
) -> bool:
    """Remember a parameter that the error names: of several the first, since what to use instead comes after it.

    Providers refuse in many words, and a temperature under thinking in most. What an error names for other reasons is
    left out in vain, so a caller whose next request fails too takes it out of :class:`Quirks` again.

    Args:
        lm: The language model that was asked.
        error: Why it did not answer.
        sent: The settings of the request.
        omitted: Parameters that the request was made without. Other calls may have added to those of the model since.

    Returns:
        Whether another request without the parameter may be answered.
    """
    said, refused = _said(error), quirks_of(lm).refused
    sized = bool(_TOO_LARGE.search(said))
    places = {
        name: said.find(name.replace("_", ""))
        for name in ("temperature", *LIMITS)
        if name not in omitted and not (sized and name in LIMITS) and _may_send(lm, name, sent)
    }
    named = [name for name, place in places.items() if place >= 0]
    if not named:
        return False
    refused.add(first := min(named, key=places.__getitem__))
    if first == "max_tokens" and "maxcompletiontokens" in said:
        # So speak OpenAI's reasoning models, which take no temperature either.
        refused.add("temperature")
    return True


def refused_size(error: BaseException) -> bool:
    """Whether the error says that a limit is too large, or that prompt and answer do not fit the context."""
    if isinstance(error, ContextWindowExceededError):
        return True
    said = _said(error)
    return bool(_TOO_LARGE.search(said)) and ("token" in said or "context" in said)


def _said(error: BaseException) -> str:
    """What a refusal says, in one spelling: "MaxTokens", "max_tokens" and "max tokens" are one."""
    if not isinstance(error, LMInvalidRequestError | LMUnsupportedFeatureError):
        return ""
    return str(getattr(error, "message", "")).lower().replace("_", "").replace("max tokens", "maxtokens")


def _may_send(lm: dspy.LM, name: str, sent: Mapping[str, Any]) -> bool:
    """Whether a request with these settings may have held a parameter."""
    if name == "temperature":
        return sent.get(name, unwrap(lm)[0].kwargs.get(name)) is not None
    # Clients give the limit names of their own.
    return any(sent.get(each) for each in LIMITS)


def _own_limit(lm: dspy.LM) -> dict[str, int]:
    return {name: lm.kwargs[name] for name in LIMITS if lm.kwargs.get(name)}


def _speaks_openai(lm: dspy.LM) -> bool:
    inner, engine = unwrap(lm)
    if not isinstance(engine, str) or not isinstance(inner, dspy.LM):
        return False
    chosen = select_backend(inner)
    return not chosen.native or chosen.resolution.adapter == _OPENAI
