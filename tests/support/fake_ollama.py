"""A server on this machine that takes what Ollama's ``/api/chat`` takes and nothing else.

with FakeOllama(context=8192) as server:
    resolve_lm("ollama_chat/some-model", api_base=server.address)
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from provider_server import Asked, Faults, ProviderServer, Reply

_FIELDS = {
    "model", "messages", "tools", "format", "options", "stream", "keep_alive", "think", "truncate", "shift",
    "logprobs", "top_logprobs",
}  # fmt: skip
_OPTIONS = {
    "num_keep", "seed", "num_predict", "top_k", "top_p", "min_p", "typical_p", "repeat_last_n", "temperature",
    "repeat_penalty", "presence_penalty", "frequency_penalty", "penalize_newline", "stop", "numa", "num_ctx",
    "num_batch", "num_gpu", "main_gpu", "use_mmap", "num_thread", "mirostat", "mirostat_tau", "mirostat_eta",
    "low_vram", "vocab_only", "use_mlock", "tfs_z",
}  # fmt: skip
_KEYWORDS = {
    "type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "minLength",
    "maxLength", "minItems", "maxItems", "pattern", "description", "title", "$ref", "$defs",
}  # fmt: skip


class FakeOllama(ProviderServer):
    """Ollama's own interface. A token is four characters.

    Args:
        models: Names that are pulled; () for all.
        context: Tokens of context that a model takes where the request names none, and its most: a larger ``num_ctx``
            is cut down to ``largest``.
        largest: Most tokens of context that the model was trained for.
        honest: Whether ``truncate: false`` is heard, as from version 0.12.6 on; earlier ones cut without a word.
        key: The key that is wanted, as behind a proxy; "" where none is.
        answer, faults: As of :class:`~provider_server.ProviderServer`.
    """

    def __init__(
        self,
        *,
        models: tuple[str, ...] = (),
        context: int = 4096,
        largest: int = 131_072,
        honest: bool = True,
        key: str = "",
        answer: str | Callable[[dict[str, Any]], str] | None = None,
        faults: Faults = None,
    ) -> None:
        super().__init__(answer, faults)
        self.models, self.context, self.largest, self.honest, self.key = models, context, largest, honest, key

    @property
    def address(self) -> str:
        """What a client gets as its base, as Ollama's own documents write it: no path."""
        return self.root

    def is_call(self, asked: Asked) -> bool:
        return asked.path == "/api/chat"

    def error(self, status: int, said: str, code: str | None = None) -> Any:
        return {"error": said}

    def respond(self, asked: Asked) -> Reply:
        status, said = self._refusal(asked) or (200, "")
        if said:
            asked.refusal = said
            return Reply(status, self.error(status, said))
        if asked.path == "/api/version":
            return Reply(200, {"version": "0.13.0" if self.honest else "0.9.0"})
        if asked.path == "/api/tags":
            return Reply(200, {"models": [{"name": name, "model": name} for name in self.models]})
        if asked.path == "/api/show":
            info = {"general.architecture": "llama", "llama.context_length": self.largest}
            return Reply(200, {"model_info": info, "capabilities": ["completion"]})
        context, tokens = self._context(asked), _tokens(asked.body["messages"])
        if tokens > context and self.honest and asked.body.get("truncate") is False:
            said = f"request ({tokens} tokens) exceeds the available context size ({context} tokens)"
            asked.refusal = f"{said}, try increasing it"
            return Reply(400, self.error(400, asked.refusal))
        form = asked.body.get("format")
        schema = form if isinstance(form, dict) else None
        text = self.text_for(asked, schema, asked.body["messages"])
        limit = asked.body.get("options", {}).get("num_predict", -1)
        cut = limit > 0 and len(text) > limit * 4
        done = self.completed(asked, text[: limit * 4] if cut else text, "length" if cut else "stop")
        if asked.body.get("stream", True):
            return Reply(200, _lines(done), {"content-type": "application/x-ndjson"})
        return Reply(200, done)

    def completed(self, asked: Asked, text: str, reason: str) -> Any:
        return {
            "model": asked.body.get("model", ""), "created_at": "2026-11-20T10:00:00.000000Z",
            "message": {"role": "assistant", "content": text}, "done": True, "done_reason": reason,
            "total_duration": 5_000_000, "load_duration": 1_000_000,
            "prompt_eval_count": min(_tokens(asked.body.get("messages", [])), self._context(asked)),
            "prompt_eval_duration": 1_000_000, "eval_count": len(text) // 4, "eval_duration": 1_000_000,
        }  # fmt: skip

    def _context(self, asked: Asked) -> int:
        return min(self.largest, (asked.body.get("options") or {}).get("num_ctx", self.context))

    def _refusal(self, asked: Asked) -> tuple[int, str] | None:
        body, path = asked.body, asked.path
        known = {"/api/chat": "POST", "/api/show": "POST", "/api/tags": "GET", "/api/version": "GET"}
        if path not in known:
            return 404, "404 page not found"
        if asked.method != known[path]:
            return 405, "405 method not allowed"
        if self.key and asked.headers.get("authorization") != f"Bearer {self.key}":
            return 401, "unauthorized"
        if asked.method == "GET":
            return None
        # /api/show still takes the older word too.
        model = str(body.get("model") or body.get("name") or "")
        if not model:
            return 400, "model is required"
        if self.models and model not in self.models:
            return 404, f"model '{model}' not found"
        return _chat_refusal(body) if path == "/api/chat" else None


def _chat_refusal(body: dict[str, Any]) -> tuple[int, str] | None:
    if unknown := sorted(body.keys() - _FIELDS):
        return 400, f"json: unknown field {unknown[0]!r}"
    if unknown := sorted((body.get("options") or {}).keys() - _OPTIONS):
        return 400, f"invalid option provided {unknown[0]!r}"
    for message in body.get("messages", []):
        if message.get("role") not in ("system", "user", "assistant", "tool"):
            return 400, f"invalid role: {message.get('role')!r}"
        if not isinstance(message.get("content"), str):
            return (
                400,
                "json: cannot unmarshal array into Go struct field ChatRequest.messages of type string",
            )
    form = body.get("format", "")
    if isinstance(form, dict):
        if strange := sorted(_keywords(form) - _KEYWORDS):
            return 400, f"invalid JSON schema in format: {strange[0]!r}"
    elif form not in ("", "json"):
        return 400, f'invalid format: {form!r}; expected "json" or a valid JSON Schema object'
    return None


def _keywords(schema: Any) -> set[str]:
    if isinstance(schema, list):
        return set().union(*map(_keywords, schema))
    if not isinstance(schema, dict):
        return set()
    inner = [
        *schema.get("properties", {}).values(),
        *schema.get("$defs", {}).values(),
        *schema.get("anyOf", []),
    ]
    return set(schema).union(*map(_keywords, [*inner, schema.get("items")]))


def _tokens(messages: list[dict[str, Any]]) -> int:
    return sum(len(str(message["content"])) for message in messages) // 4


def _lines(done: dict[str, Any]) -> Iterator[bytes]:
    text = done["message"]["content"]
    for part in re.findall(r"\S*\s*", text):
        piece = {"model": done["model"], "message": {"role": "assistant", "content": part}, "done": False}
        yield json.dumps(piece).encode() + b"\n"
    yield json.dumps(done | {"message": {"role": "assistant", "content": ""}}).encode() + b"\n"
