"""What holds for every file of the repository."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LONGEST = 400
VAGUE = {"utils", "util", "helpers", "helper", "common", "misc"}

ABSOLUTE_PATH = re.compile(r"(?<![\w.:/-])/(?:home|Users|root|work|mnt)/[\w.-]+|\b[A-Z]:\\\\?Users\b")
REGISTRY = re.compile(
    r"(?i)files\.pythonhosted\b|\bpypi\.(?:org|python)\b|\bregistry\.npmjs\b|index-url[ =]+\w+:"
)


def _listed() -> list[Path]:
    """Tracked files, and new ones that are not ignored: a fault is found before it is committed."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if listing.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in listing.stdout.split("\0") if name and (ROOT / name).is_file()]


@pytest.fixture(scope="module")
def files() -> list[Path]:
    return _listed()


def _matches(files: list[Path], pattern: re.Pattern[str]) -> list[str]:
    found = []
    for path in files:
        try:
            lines = path.read_text("utf-8").splitlines()
        except UnicodeDecodeError:
            continue
        hits = ((number, pattern.search(line)) for number, line in enumerate(lines, 1))
        found += [f"{path.relative_to(ROOT)}:{number}: {hit.group()}" for number, hit in hits if hit]
    return found


def test_no_source_file_is_too_long(files: list[Path]) -> None:
    lengths = {path: len(path.read_text("utf-8").splitlines()) for path in files if path.suffix == ".py"}
    assert [f"{path.relative_to(ROOT)}: {n} lines" for path, n in lengths.items() if n > LONGEST] == []


def test_no_module_has_a_vague_name(files: list[Path]) -> None:
    modules = [path.relative_to(ROOT) for path in files if path.suffix == ".py"]
    names = {path: {part.lstrip("_") for part in path.with_suffix("").parts} for path in modules}
    assert [str(path) for path, parts in names.items() if parts & VAGUE] == []


def test_no_path_of_one_machine(files: list[Path]) -> None:
    # A conversation may well name a path; datasets are read by their own check.
    assert _matches([path for path in files if path.suffix != ".jsonl"], ABSOLUTE_PATH) == []


def test_no_package_registry(files: list[Path]) -> None:
    assert _matches(files, REGISTRY) == []


@pytest.mark.parametrize("text", ["see {}home/ann/x.py", "open('{}work/a')"])
def test_a_machine_path_is_recognised(text: str) -> None:
    # The slash is put in here, so that this file has no such path.
    assert ABSOLUTE_PATH.search(text.format("/"))


@pytest.mark.parametrize(
    "text", ["https://example.org/" + "home/page", "the framework/mnt", "a/" + "work/b", "/" + "root"]
)
def test_other_text_is_not_taken_for_a_machine_path(text: str) -> None:
    assert not ABSOLUTE_PATH.search(text)


def test_the_package_says_that_it_is_typed() -> None:
    assert (ROOT / "jazzmine_dspy" / "py.typed").is_file()
