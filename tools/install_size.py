"""Size and number of packages of this project with each of its extras, each in a fresh virtual environment by uv.

Run: .venv/bin/python tools/install_size.py [EXTRAS …] [--docs]

EXTRAS are names of extras, several of them as ``optimize,local``; without any, all are measured. The size holds the
compiled files of Python, as after an installation by pip. The number of packages holds this one. ``--docs`` writes the
table into README.md.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from install import ROOT, index_for_uv

sys.path.append(str(ROOT / "eval" / "benchmarks"))

from marked_block import filled

README = ROOT / "README.md"
TOGETHER = "optimize,local"
LEFT_OUT = ("dev",)
"""Extras that only the development of this project needs."""


def measure(extras: str) -> tuple[float, int]:
    """Install the project into a new environment; its size in GB, and the number of packages in it."""
    uv = str(Path(sys.executable).with_name("uv"))
    with tempfile.TemporaryDirectory() as folder:
        environment = Path(folder, "venv")
        subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, environment], check=True)
        wanted = f"{ROOT}[{extras}]" if extras else str(ROOT)
        python = environment / "bin" / "python"
        command = [uv, "pip", "install", "--quiet", "--compile-bytecode", "--link-mode", "copy"]
        variables = {**os.environ, **index_for_uv()}
        subprocess.run([*command, "--python", python, wanted], check=True, env=variables, cwd=ROOT)
        files = [path for path in environment.rglob("*") if path.is_file() and not path.is_symlink()]
        packages = [path for path in environment.rglob("*.dist-info") if path.is_dir()]
        return sum(path.stat().st_size for path in files) / 1e9, len(packages)


def table(rows: dict[str, tuple[float, int]]) -> str:
    """The figures as a table of Markdown."""
    lines = ["| installed | GB | packages |", "|---|---|---|"]
    for extras, (size, packages) in rows.items():
        lines.append(f"| `.{f'[{extras}]' if extras else ''}` | {size:.2f} | {packages} |")
    return "\n".join(lines)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("extras", nargs="*")
    parser.add_argument("--docs", action="store_true")
    options = parser.parse_args(arguments)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    names = [name for name in project["optional-dependencies"] if name not in LEFT_OUT]
    rows = {}
    for extras in options.extras or ["", TOGETHER, *names]:
        rows[extras] = measure(extras)
        print(table({extras: rows[extras]}).splitlines()[-1], file=sys.stderr, flush=True)
    print(table(rows))
    if options.docs:
        README.write_text(filled(README.read_text("utf-8"), table(rows), "install"), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
