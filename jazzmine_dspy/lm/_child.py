"""The process that holds llama.cpp. It runs by its path and imports nothing of this package, so it starts
fast.

Each message is one line of JSON. In: a `load`, then any number of `complete` and `cancel`. Out: `ready`,
`delta`, `done` or `error`, each with the id of its call. The process ends when its input does, so it never
outlives its parent.
"""

from __future__ import annotations

import json
import os
import queue
import secrets
import sys
import threading
from typing import Any

# Compact JSON: in a small model's answers about a third of the tokens is white space. `lenient` passes over
# keywords without a grammar (uniqueItems, not, if): whoever reads the answer validates it anyway.
_COMPACT = {
    "whitespace_flexible": False,
    "item_separator": ",",
    "key_separator": ":",
    "lenient": True,
    "coerce_one_of": True,
}


class Child:
    """One model and its loop.

    Args:
        out: The stream that messages are written to; file descriptor 1 itself is kept from native code.
    """

    def __init__(self, out: Any) -> None:
        self.out = out
        self.inbox: queue.Queue[dict[str, Any]] = queue.Queue()
        self.cancelled: set[int] = set()
        self.server: Any = None
        self.convert: Any = None
        self.prefixes = False
        self.prefix: list[Any] = []

    def say(self, **message: Any) -> None:
        self.out.write(json.dumps(message, separators=(",", ":")) + "\n")
        self.out.flush()

    def listen(self) -> None:
        for line in sys.stdin.buffer:
            message = json.loads(line)
            if message["op"] == "cancel":
                self.cancelled.add(message["id"])
            else:
                self.inbox.put(message)
        os._exit(0)

    def load(self, settings: dict[str, Any]) -> None:
        import xllamacpp

        self.prefixes = settings.get("prefix_cache", False)
        params = xllamacpp.CommonParams()
        params.model.path = settings["path"]
        params.n_ctx = settings["n_ctx"]
        params.n_parallel = 1
        params.n_gpu_layers = 0
        params.cpuparams.n_threads = settings["threads"]
        params.cpuparams_batch.n_threads = settings["threads"]
        params.cache_prompt = settings["prompt_cache"]
        # With its cache llama.cpp answers the same prompt from other batches, and its numbers differ.
        params.cache_ram_mib = 256 if settings["prompt_cache"] else 0
        params.ctx_shift = False
        params.warmup = False
        params.use_jinja = True
        # Level 1 is errors alone; the grammar library reports a schema it cannot read nowhere else.
        params.verbosity = 1
        # The library opens an HTTP port on the loopback and has no switch against it; nobody knows this key.
        params.api_keys = [secrets.token_hex(32)]
        params.ui = False
        params.endpoint_slots = False
        params.endpoint_props = False
        self.convert = xllamacpp.json_schema_to_grammar
        self.server = xllamacpp.Server(params)
        self.say(op="ready")

    def begin(self, body: dict[str, Any]) -> None:
        """Bring the cache to the end of the constant part of the prompt: all messages but the last.

        llama.cpp reuses whatever a prompt shares with the one before, so batches, and with them the last digits of
        its numbers, depend on what was asked earlier. Here the cache is always cut at the same place: a new
        beginning is computed whole, a known one is returned to, and only what follows is new.
        """
        prefix = body["messages"][:-1]
        body["cache_prompt"] = bool(prefix)
        if not prefix:
            return
        known = prefix == self.prefix
        self.prefix = []
        for cached in (True,) if known else (False, True):
            answer = self.server.handle_chat_completions(
                {"messages": prefix, "max_tokens": 1, "temperature": 0.0, "cache_prompt": cached}
            )
            if not isinstance(answer, dict) or "error" in answer:
                body["cache_prompt"] = False
                return
        self.prefix = prefix

    def complete(self, message: dict[str, Any]) -> None:
        call, body = message["id"], message["body"]
        if self.prefixes:
            self.begin(body)
        os.ftruncate(2, 0)
        schema = message.get("schema")
        if schema is not None:
            body["grammar"] = self.convert({**schema, "x-guidance": _COMPACT})
        text: list[str] = []
        logprobs: list[Any] = []
        end: dict[str, Any] = {"finish": None, "usage": None, "timings": {}}
        problem: dict[str, Any] | None = None

        def on_chunk(chunk: Any) -> bool:
            nonlocal problem
            if "error" in chunk:
                problem = {"kind": chunk["error"].get("type", ""), **chunk["error"]}
                return True
            if not text and schema is not None and (complaint := _grammar_error()):
                problem = {"kind": "schema", "message": complaint}
                return True
            for choice in chunk.get("choices") or ():
                end["finish"] = choice.get("finish_reason") or end["finish"]
                logprobs.extend((choice.get("logprobs") or {}).get("content") or ())
                if piece := (choice.get("delta") or {}).get("content"):
                    text.append(piece)
                    if message.get("stream"):
                        self.say(op="delta", id=call, text=piece)
            end["usage"] = chunk.get("usage") or end["usage"]
            end["timings"] = chunk.get("timings") or end["timings"]
            return call in self.cancelled

        body |= {"stream": True, "stream_options": {"include_usage": True}}
        answer = self.server.handle_chat_completions(body, on_chunk)
        if isinstance(answer, dict) and "error" in answer:
            problem = {"kind": answer["error"].get("type", ""), **answer["error"]}
        # A schema that failed leaves the decoder free: what it then wrote must not pass for an answer.
        if problem is None and schema is not None and (complaint := _grammar_error()):
            problem = {"kind": "schema", "message": complaint}
        self.cancelled.discard(call)
        if problem is not None:
            self.say(op="error", id=call, error=problem)
        else:
            self.say(op="done", id=call, text="".join(text), logprobs=logprobs, **end)

    def run(self) -> None:
        threading.Thread(target=self.listen, daemon=True).start()
        try:
            self.load(self.inbox.get())
        except Exception as error:
            kind = "missing" if isinstance(error, ImportError) else "load"
            self.say(op="error", id=0, error={"kind": kind, "message": f"{type(error).__name__}: {error}"})
            return
        while True:
            message = self.inbox.get()
            try:
                self.complete(message)
            except Exception as error:
                self.say(
                    op="error",
                    id=message["id"],
                    error={"kind": "failed", "message": f"{type(error).__name__}: {error}"},
                )


def _grammar_error() -> str:
    """What the grammar library has written to the log since the call began."""
    if not (size := os.fstat(2).st_size):
        return ""
    for line in os.pread(2, min(size, 65536), 0).decode("utf-8", "replace").splitlines():
        if "llg error" in line:
            return line.partition("llg error")[2].lstrip(": ")
    return ""


if __name__ == "__main__":
    protocol = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    Child(protocol).run()
