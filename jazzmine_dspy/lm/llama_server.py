"""The child process that serves a model by llama.cpp on the loopback. It runs by its path and imports nothing of this
package, so it starts fast.

In: one line of JSON with the settings. Out: one line with the address, or with an error. The process ends when its
input does, so it never outlives its parent.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any


def serve(settings: dict[str, Any]) -> Any:
    """The server; it answers from threads of its own for as long as this object lives."""
    import xllamacpp

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
    params.api_keys = [settings["key"]]
    params.ui = False
    params.endpoint_slots = False
    params.endpoint_props = False
    return xllamacpp.Server(params)


def main() -> None:
    """Serve until the input ends."""
    # Native code writes to file descriptor 1, so the line goes out through a copy of it.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        server = serve(json.loads(sys.stdin.buffer.readline()))
        line = {"address": server.listening_address}
    except Exception as error:
        line = {"error": f"{type(error).__name__}: {error}"}
    out.write(json.dumps(line) + "\n")
    out.flush()
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    main()
