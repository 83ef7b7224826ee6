"""Reading DSPy's canonical request, and building its response: what every engine of this package shares."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

from dspy._vendor.lm15.serde import request_to_dict
from dspy.lm15 import (
    Message,
    Request,
    Response,
    StreamDeltaEvent,
    StreamEndEvent,
    StreamStartEvent,
    TextDelta,
    TextPart,
    Usage,
)

from jazzmine_dspy.lm.errors import LMRequestError
from jazzmine_dspy.models.base import canonical_json, sha256


def system_text(request: Request) -> str:
    """The system message, "" if there is none."""
    system = request.system
    if system is None or isinstance(system, str):
        return system or ""
    return "".join(part.text for part in system if part.type == "text")


def user_text(request: Request) -> str:
    """The last user message, "" if there is none: with DSPy's adapters, the inputs of the call itself."""
    return next((_text(message) for message in reversed(request.messages) if message.role == "user"), "")


def chat_messages(request: Request) -> list[dict[str, str]]:
    """The request as `role` and `content` pairs, for a text-only model.

    Raises:
        LMRequestError: The request holds tools, images or anything else but text.
    """
    if request.tools:
        raise LMRequestError(
            "The model takes no tools", where=request.model, remedy="Ask for the answer as an output field."
        )
    messages = [{"role": "system", "content": text}] if (text := system_text(request)) else []
    for message in request.messages:
        for part in message.parts:
            if part.type not in ("text", "thinking"):
                raise LMRequestError(
                    f"The model takes text only, not {part.type}",
                    where=request.model,
                    remedy="Describe it in text, or choose another language model.",
                )
        role = "system" if message.role == "developer" else message.role
        messages.append({"role": role, "content": _text(message)})
    return messages


def response_schema(request: Request) -> dict[str, Any] | None:
    """The JSON schema that the answer is to have (in plain JSON mode any object's), or None for free text."""
    form = request.config.response_format
    if not form or form.get("type") == "text":
        return None
    if form["type"] == "json_object":
        return {"type": "object"}
    schema = form.get("schema") or (form.get("json_schema") or {}).get("schema")
    return cast("dict[str, Any]", closed(schema)) if schema else {"type": "object"}


def closed(schema: Any) -> Any:
    """A schema whose objects have the properties they name and no others, unless they say otherwise.

    JSON Schema leaves them open, and a small model then invents properties until its tokens run out.
    """
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    # What is in these is data, or names of the user's own that only look like keywords.
    kept = {key: schema[key] for key in ("enum", "const", "default", "examples", "required") if key in schema}
    made = {key: closed(value) for key, value in schema.items()}
    for key in ("properties", "patternProperties", "$defs", "definitions"):
        if isinstance(schema.get(key), dict):
            made[key] = {name: closed(each) for name, each in schema[key].items()}
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        made.setdefault("additionalProperties", False)
    return made | kept


def text_response(
    request: Request, text: str, *, finish: str = "stop", usage: Usage | None = None
) -> Response:
    """A response of one text."""
    return Response(
        id=None,
        model=request.model,
        message=Message.assistant([TextPart(text)]),
        finish_reason=finish,
        usage=usage or Usage(),
    )


def request_key(request: Request, identity: str = "") -> str:
    """SHA-256 over the canonical JSON of a request and the identity of the model that it goes to."""
    return sha256(f"{identity}\n{canonical_json(request_to_dict(request))}")


def small_events(response: Response) -> Iterator[Any]:
    """A finished text response as events of a word each: DSPy's listeners miss a field in one big delta."""
    yield StreamStartEvent(id=response.id, model=response.model)
    for piece in re.findall(r" [^ ]*|[^ ]+", _text(response.message)):
        yield StreamDeltaEvent(delta=TextDelta(text=piece))
    yield StreamEndEvent(
        finish_reason=response.finish_reason, usage=response.usage, provider_data=response.provider_data
    )


def _text(message: Message) -> str:
    return "".join(part.text for part in message.parts if part.type == "text")
