"""Installs this project, editable, into the environment that runs this: `install.py optimize,local,dev`.

uv does it in a fraction of pip's time, so it is tried first; where it can't be had or fails, pip does it.
Both use the package index that pip is set up for.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PIP = [sys.executable, "-m", "pip"]


def run(command: Sequence[str], **variables: str) -> bool:
    print("+", " ".join(command), flush=True)
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **variables}).returncode == 0


def index_for_uv() -> dict[str, str]:
    """Pip's package index under the name that uv knows, unless uv has been given one of its own."""
    if any(name in os.environ for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_CONFIG_FILE")):
        return {}
    settings = subprocess.run([*PIP, "config", "list"], capture_output=True, text=True, cwd=ROOT).stdout
    found = {}
    for line in settings.splitlines():
        key, _, value = line.partition("=")
        if key.endswith(".index-url"):
            found[key.partition(".")[0]] = value.strip("'\"")
    # The environment wins over a file, as it does for pip.
    index = found.get(":env:") or next(iter(found.values()), "")
    return {"UV_DEFAULT_INDEX": index} if index else {}


def main(extras: str) -> int:
    # The editable install needs editables at run time, which uv does not find out by itself.
    wanted = [["editables>=0.5", "-e", f".[{extras}]"]]
    if "dev" in extras.split(","):
        wanted[0] += ["-e", "./conformance"]
        wanted.append(["--no-deps", "-r", "tools/no-deps-dev.txt"])
    if run([*PIP, "install", "--quiet", "uv"]):
        uv = [str(Path(sys.executable).parent / "uv"), "pip", "install", "--python", sys.executable]
        variables = index_for_uv()
        if all(run([*uv, *what], **variables) for what in wanted):
            return 0
        print("uv failed; trying pip", flush=True)
    return 0 if all(run([*PIP, "install", *what]) for what in wanted) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
