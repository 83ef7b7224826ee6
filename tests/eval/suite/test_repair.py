"""The shipped repair suite is what it is said to be, and nothing else here knows its unseen registries (U13)."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from jazzmine_dspy.eval.suite.model import load_suite, unseen_registries
from jazzmine_dspy.models.registry import FlowRegistry

ROOT = Path(__file__).resolve().parents[3]
REPAIR = ROOT / "eval" / "suites" / "repair"
KINDS = {
    "cancellation", "chitchat", "correction", "digression", "disambiguation", "happy_path", "input_validation",
    "knowledge", "negation", "repetition", "resume", "skip_question",
}  # fmt: skip
OWN_WORDS = 6
"""From this many words on a sentence is somebody's own; everybody says "sorry, what did you ask?"."""


@pytest.mark.row("U13")
def test_it_is_large_enough_and_mostly_unseen() -> None:
    suite = load_suite(REPAIR)
    kinds = Counter(each.kind for each in suite.conversations)
    assert set(kinds) == KINDS
    assert min(kinds.values()) >= 8
    assert len(suite.conversations) >= 120
    assert min(len(each.turns) for each in suite.conversations) >= 2
    unseen = unseen_registries(REPAIR)
    assert len(unseen) == 3
    assert sum(each.registry in unseen for each in suite.conversations) >= 80
    assert all(turn.expect is not None for each in suite.conversations for turn in each.turns)


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.casefold()))


def _elsewhere() -> dict[str, str]:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout
    names = [ROOT / name for name in listed.split("\0") if name] or [
        p for p in ROOT.rglob("*") if p.is_file()
    ]
    # The same flows with other conversations, on which programs are compiled and none of the package's weights.
    curves = [ROOT / "eval" / "suites" / "learning" / f"{name}.yaml" for name in unseen_registries(REPAIR)]
    kept = {".py", ".toml", ".yaml", ".yml", ".json", ".jsonl", ".md", ".txt", ".html"}
    # Sets that measure alone may meet a sentence by chance.
    deciding = ROOT / "eval" / "suites" / "deciding"
    apart = (REPAIR, deciding, ROOT / "eval" / "recordings", ROOT / ".venv", *curves)
    return {
        str(path.relative_to(ROOT)): f" {_plain(path.read_text('utf-8'))} "
        for path in names
        if path.suffix in kept and path.is_file() and not any(path.is_relative_to(each) for each in apart)
    }


@pytest.mark.row("U13")
def test_no_other_file_holds_a_sentence_of_the_unseen_registries() -> None:
    """Nothing is fitted, prompted or phrased on them: no example, no message of theirs stands anywhere else."""
    unseen = unseen_registries(REPAIR)
    said = [
        turn.user
        for each in load_suite(REPAIR).conversations
        if each.registry in unseen
        for turn in each.turns
    ]
    shown = [
        example
        for name in unseen
        for flow in FlowRegistry.from_yaml(REPAIR / f"{name}.yaml").values()
        for example in (flow.description, flow.condition, *flow.examples)
    ]
    sentences = {plain for text in [*said, *shown] if len((plain := _plain(text)).split()) >= OWN_WORDS}
    assert len(sentences) > 100
    found = {path: sorted(s for s in sentences if f" {s} " in text) for path, text in _elsewhere().items()}
    assert {path: held for path, held in found.items() if held} == {}
