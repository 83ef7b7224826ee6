"""A server on this machine that takes what OpenAI's chat completions take and nothing else; also as others serve them.

with FakeOpenAI(key="sk-test") as server:
    resolve_lm("openai/gpt-4o-mini", api_base=server.address, api_key="sk-test")
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

from provider_server import Asked, Faults, ProviderServer, Reply
from strict_schema import format_problems

Flavour = Literal["openai", "azure", "vllm", "llamacpp", "litellm"]

_FIELDS = {
    "model", "messages", "temperature", "top_p", "n", "stream", "stream_options", "stop", "max_tokens",
    "max_completion_tokens", "presence_penalty", "frequency_penalty", "logit_bias", "logprobs", "top_logprobs", "user",
    "seed", "response_format", "tools", "tool_choice", "parallel_tool_calls", "reasoning_effort", "service_tier",
    "store", "metadata", "prediction", "modalities", "audio", "verbosity", "safety_identifier", "prompt_cache_key",
    "prompt_cache_retention", "web_search_options",
}  # fmt: skip
_REASONING = re.compile(r"(o[134]|gpt-5)(?!.*-chat)")
_WITHOUT_SCHEMAS = re.compile(r"gpt-3\.5|gpt-4(-turbo|-\d{4}|$)")
_PATHS: dict[Flavour, tuple[str, ...]] = {
    "openai": ("/v1/chat/completions",),
    "vllm": ("/v1/chat/completions",),
    "llamacpp": ("/v1/chat/completions", "/chat/completions"),
    "litellm": ("/v1/chat/completions", "/chat/completions"),
    "azure": (),
}


class FakeOpenAI(ProviderServer):
    """OpenAI's chat completions.

    Args:
        key: The key that is wanted; "" where the server wants none.
        flavour: Whose server it is: paths, header of the key, and what is checked. ``openai`` and ``azure`` hold
            schemas to the strict subset, and know which models refuse what; the others take any schema and model.
        models: Names that are served; () for all.
        schemas: False for a server that refuses every schema.
        answer, faults: As of :class:`~provider_server.ProviderServer`.
    """

    def __init__(
        self,
        *,
        key: str = "",
        flavour: Flavour = "openai",
        models: tuple[str, ...] = (),
        schemas: bool = True,
        answer: str | Callable[[dict[str, Any]], str] | None = None,
        faults: Faults = None,
    ) -> None:
        super().__init__(answer, faults)
        self.key, self.flavour, self.models, self.schemas = key, flavour, models, schemas

    @property
    def address(self) -> str:
        """What a client gets as its base, as this provider's own documents write it."""
        return self.root if self.flavour in ("azure", "litellm") else f"{self.root}/v1"

    def is_call(self, asked: Asked) -> bool:
        return asked.method == "POST" and urlsplit(asked.path).path.endswith("/chat/completions")

    def error(self, status: int, said: str, code: str | None = None) -> Any:
        kind = {401: "authentication_error", 429: "requests", 500: "server_error"}.get(
            status, "invalid_request_error"
        )
        return {"error": {"message": said, "type": kind, "param": None, "code": code}}

    def respond(self, asked: Asked) -> Reply:
        status, said, code = self._refusal(asked) or (200, "", None)
        if said:
            asked.refusal = said
            return Reply(status, self.error(status, said, code))
        if asked.method == "GET":
            names = self.models or ("some-model",)
            data = [{"id": name, "object": "model", "created": 1, "owned_by": "x"} for name in names]
            return Reply(200, {"object": "list", "data": data})
        schema = ((asked.body.get("response_format") or {}).get("json_schema") or {}).get("schema")
        text, reason = self._limited(asked, self.text_for(asked, schema, asked.body["messages"]))
        if asked.body.get("stream"):
            return Reply(200, self._events(asked, text, reason), {"content-type": "text/event-stream"})
        return Reply(200, self.completed(asked, text, reason))

    def completed(self, asked: Asked, text: str, reason: str) -> Any:
        message = {"role": "assistant", "content": text, "refusal": None}
        return {
            "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": asked.body.get("model", ""),
            "choices": [{"index": 0, "finish_reason": reason, "message": message, "logprobs": None}],
            "usage": self._usage(asked, text),
        }  # fmt: skip

    def _usage(self, asked: Asked, text: str) -> dict[str, int]:
        prompt = len(json.dumps(asked.body.get("messages", ""))) // 4
        return {
            "prompt_tokens": prompt,
            "completion_tokens": len(text) // 4,
            "total_tokens": prompt + len(text) // 4,
        }

    def _limited(self, asked: Asked, text: str) -> tuple[str, str]:
        limit = asked.body.get("max_completion_tokens") or asked.body.get("max_tokens")
        return (text[: limit * 4], "length") if limit and len(text) > limit * 4 else (text, "stop")

    def _events(self, asked: Asked, text: str, reason: str) -> Iterator[bytes]:
        head = {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": asked.body["model"],
        }
        for part in re.findall(r"\S*\s*", text):
            choice = {"index": 0, "delta": {"content": part}, "finish_reason": None}
            yield f"data: {json.dumps(head | {'choices': [choice]})}\n\n".encode()
        last = {"index": 0, "delta": {}, "finish_reason": reason}
        yield f"data: {json.dumps(head | {'choices': [last]})}\n\n".encode()
        if (asked.body.get("stream_options") or {}).get("include_usage"):
            yield f"data: {json.dumps(head | {'choices': [], 'usage': self._usage(asked, text)})}\n\n".encode()
        yield b"data: [DONE]\n\n"

    # --- what is refused ------------------------------------------------------------------------------

    def _refusal(self, asked: Asked) -> tuple[int, str, str | None] | None:
        path, model = urlsplit(asked.path), str(asked.body.get("model", ""))
        if self.flavour == "azure":
            found = re.fullmatch(r"/openai/deployments/([^/]+)/chat/completions", path.path)
            if found is None or not parse_qs(path.query).get("api-version"):
                return 404, "Resource not found", "404"
            model = found[1]
            given = asked.headers.get("api-key", "")
        else:
            if asked.method == "GET" and path.path.endswith("/models"):
                pass
            elif path.path not in _PATHS[self.flavour]:
                return 404, f"Invalid URL ({asked.method} {path.path})", None
            given = asked.headers.get("authorization", "").removeprefix("Bearer ")
        if self.key and given != self.key:
            return 401, f"Incorrect API key provided: {given}.", "invalid_api_key"
        if asked.method == "GET":
            return None
        if self.models and model not in self.models:
            return (
                404,
                f"The model `{model}` does not exist or you do not have access to it.",
                "model_not_found",
            )
        if asked.headers.get("content-type", "").partition(";")[0] != "application/json":
            return 400, "We could not parse the JSON body of your request.", None
        return self._body_refusal(asked.body, model)

    def _body_refusal(self, body: dict[str, Any], model: str) -> tuple[int, str, str | None] | None:
        strict = self.flavour in ("openai", "azure")
        for key in body:
            if strict and key not in _FIELDS:
                return 400, f"Unrecognized request argument supplied: {key}", None
        if not model or not _are_messages(body.get("messages")):
            return 400, "Invalid value for 'messages' or 'model'.", None
        if None in body.values() and strict:
            return 400, "Invalid type: expected a value, but got null instead.", "invalid_type"
        if "max_tokens" in body and "max_completion_tokens" in body:
            return (
                400,
                "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.",
                None,
            )
        if strict and _REASONING.match(model):
            if "max_tokens" in body:
                said = "Unsupported parameter: 'max_tokens' is not supported with this model."
                return 400, f"{said} Use 'max_completion_tokens' instead.", "unsupported_parameter"
            if body.get("temperature", 1) != 1:
                said = "Unsupported value: 'temperature' does not support 0 with this model."
                return 400, f"{said} Only the default (1) value is supported.", "unsupported_value"
        return self._format_refusal(body, model, strict)

    def _format_refusal(
        self, body: dict[str, Any], model: str, strict: bool
    ) -> tuple[int, str, str | None] | None:
        form = body.get("response_format") or {"type": "text"}
        if form.get("type") not in ("text", "json_object", "json_schema"):
            return 400, "Invalid value for 'response_format.type'.", None
        if form["type"] == "json_object" and strict and "json" not in json.dumps(body["messages"]).lower():
            return (
                400,
                "'messages' must contain the word 'json' in some form, to use 'response_format'.",
                None,
            )
        if form["type"] == "json_schema":
            if not self.schemas or (strict and _WITHOUT_SCHEMAS.match(model)):
                said = "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model."
                return 400, said, None
            if strict and (found := format_problems(form)):
                return 400, f"Invalid schema for response_format 'answer': {found[0]}", None
        return None


def _are_messages(messages: Any) -> bool:
    if not isinstance(messages, list) or not messages:
        return False
    roles = ("system", "developer", "user", "assistant", "tool")
    return all(
        isinstance(each, dict) and each.get("role") in roles and isinstance(each.get("content"), str | list)
        for each in messages
    )
