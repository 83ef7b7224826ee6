"""The limit of an answer's tokens: how large it is, and under which name a provider is sent it."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import dspy
from dspy._vendor.lm15.compat import OPENAI_CHAT_PRESETS, OpenAIChatCompat, resolve_openai_chat_compat
from dspy.clients.backend_selection import select_backend
from dspy.clients.lm import _is_openai_reasoning_model
from dspy.lm15 import Request
from dspy.utils.exceptions import ContextWindowExceededError, LMInvalidRequestError, LMUnsupportedFeatureError

from jazzmine_dspy.lm.engines import unwrap
from jazzmine_dspy.lm.providers import LIMITS, quirks_of

REASONING_TOKENS = 16_000
"""Least limit of an answer of a model that thinks first: what it thinks counts as part of it."""
MORE = 4
"""How many times the limit the one retry gets whose answer broke off."""

_OPENAI = "OpenAIChatLM"
_REFUSED = re.compile(
    r"unsupported|not supported|not support|unrecognized|unknown|unexpected|not permitted|not allowed|deprecated|"
    r"invalid|only the default|only .{0,12}allowed"
)
_NEAR = 80
_NOT_REFUSED = re.compile(r"\buse ['\"`]?@@|\bthe @@(?! param)")
"""Around a name, which stands as ``@@``: what is to be used instead, and a value rather than the parameter."""
_TOO_LARGE = re.compile(
    r"too (?:large|high|many|big|long)|at most|at least|maximum|exceed|(?:less|greater|more) than|must be|<=|between"
)


def answer_limit(lm: dspy.LM, wanted: int, least: int = 0, most: int | None = None) -> dict[str, Any]:
    """The settings that limit an answer's tokens, by the name that the model takes.

    The larger of this and the user's own limit is sent, under the name that the user gave. A model that thinks first
    gets more, since its thoughts are counted too. Local models keep to what the answer needs.

    Args:
        lm: The language model.
        wanted: Tokens that the answer itself needs; 0 for no limit of ours.
        least: Tokens that this one call is given at least.
        most: Tokens that the provider takes at most; None for what is known of it.
    """
    inner, engine = unwrap(lm)
    quirks = quirks_of(lm)
    if not str(inner.model).startswith("local/"):
        wanted = max(wanted, least, *_own_limit(inner).values())
    thinks = _is_openai_reasoning_model(str(inner.model)) or quirks.refused or quirks.thinks
    if wanted and (thinks or lm.supports_reasoning or getattr(engine, "think", None)):
        wanted = max(wanted, thinking_room(engine))
    if (most := most or quirks.most) is not None:
        wanted = min(wanted, most)
    name = limit_name(lm)
    if name is None:
        name = "max_completion_tokens" if _is_openai_reasoning_model(str(inner.model)) else "max_tokens"
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
    """Remember a parameter that the error says the model refuses.

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
        name: _place_refused(said, name)
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


def _place_refused(said: str, name: str) -> int:
    """Where a refusal names a parameter, and not as what is to be used instead; -1 where it does not."""
    for match in re.finditer(name.replace("_", ""), said):
        before, after = said[max(0, match.start() - _NEAR) : match.start()], said[match.end() :][:_NEAR]
        if _REFUSED.search(f"{before} {after}") and not _NOT_REFUSED.search(f"{before}@@{after}"):
            return match.start()
    return -1


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
