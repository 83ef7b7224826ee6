"""What `docs/first-hour.md` takes: its files and commands, one after the other, in an empty folder, each way.

The servers are those of the tests, which refuse what OpenAI and Ollama do not publish. Reading and typing take no time
here; installing is left out. Run by: make bench-first-hour, or python tools/bench_first_hour.py --only hour
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "first-hour.md"
WAYS = {
    "no language model": "## 4.",
    "OpenAI's protocol": "### Your own server",
    "Ollama": "### Ollama",
}


def steps(way: str) -> Iterator[tuple[str, str]]:
    """What the page has a reader do: ("file", text) and ("command", line)."""
    parts = re.split(r"^(?=###? )", PAGE.read_text("utf-8"), flags=re.MULTILINE)
    wanted = ["## 1.", "## 2.", "## 3.", WAYS[way]] + ["### Then"] * (way != "no language model")
    for part in (part for head in wanted for part in parts if part.startswith(head)):
        for kind, block in re.findall(r"^```(\w+)\n(.*?)^```$", part, re.MULTILINE | re.DOTALL):
            if kind in ("yaml", "text"):
                yield kind, block
                continue
            for line in block.replace("\\\n", " ").splitlines():
                if not line.startswith(("python3 ", "pip ")) and line != "jazzmine-dspy doctor":
                    yield "command", line


@contextlib.contextmanager
def provider(way: str) -> Iterator[Any]:
    sys.path.insert(0, str(ROOT / "tests" / "support"))
    from fake_ollama import FakeOllama
    from fake_openai import FakeOpenAI

    made = {"OpenAI's protocol": lambda: FakeOpenAI(key="none"), "Ollama": lambda: FakeOllama()}
    if way not in made:
        yield None
        return
    with made[way]() as server:
        yield server


def walk(way: str) -> tuple[int, float, int, int]:
    """Follow the page: commands typed, minutes from `init` to the last command, requests, errors met."""
    commands = errors = 0
    environment = dict(os.environ, PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    with tempfile.TemporaryDirectory() as work, provider(way) as server:
        folder = Path(work)
        if server:
            environment["OLLAMA_API_BASE"] = server.root
        began = time.perf_counter()
        for kind, text in steps(way):
            if kind == "yaml":
                (folder / "datasets" / "bistro" / "flows.yaml").write_text(text, "utf-8")
            elif kind == "text":
                (folder / "labels.csv").write_text(text, "utf-8")
            else:
                commands += 1
                line, _, then = text.partition(" && cd ")
                if server:
                    line = line.replace("http://localhost:8080", server.root)
                if line.startswith("export "):
                    name, _, value = line.removeprefix("export ").partition("=")
                    environment[name] = value
                    continue
                done = subprocess.run(
                    line, shell=True, cwd=folder, env=environment, text=True, capture_output=True,
                    input="a table for three\n",
                )  # fmt: skip
                told = done.stdout + done.stderr
                bad = done.returncode != 0 or re.search(r"^error:|Traceback|degraded: ", told, re.MULTILINE)
                errors += bool(bad)
                if bad:
                    print(f"{line}\n{told}", file=sys.stderr)
                folder = folder / then if then else folder
        minutes = (time.perf_counter() - began) / 60
        refused = server.refused if server else []
        for each in refused:
            print(f"refused: {each}", file=sys.stderr)
        return commands, minutes, len(server.calls) if server else 0, errors + len(refused)


def table() -> str:
    """A row each way, in Markdown."""
    lines = [
        "| way | commands typed | minutes from `init` to the last decision | requests | errors met |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for way in WAYS:
        commands, minutes, requests, errors = walk(way)
        lines.append(f"| {way} | {commands} | {minutes:.1f} | {requests} | {errors} |")
        print(lines[-1], file=sys.stderr, flush=True)
    return "\n".join(lines)
