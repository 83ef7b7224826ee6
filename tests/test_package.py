"""A5: importing the package is cheap. What it costs in milliseconds is measured by `make bench`."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import jazzmine_dspy

HEAVY = {
    "dspy", "mlflow", "qdrant_client", "redis", "fastembed", "numpy", "sklearn", "scipy", "litellm",
    "sqlalchemy", "onnxruntime", "rich", "typer",
}  # fmt: skip
NAMES = [
    "load",
    "load_dataset",
    "metric",
    "save",
    "TurnProgram",
    "DecisionCache",
    "Runtime",
    "Turn",
    "TurnDecision",
    "Flow",
    "FlowRegistry",
    "Slot",
    "Message",
    "MessageRole",
    "MessageEnhancer",
    "parse_enhancement",
    "trim_to_current_episode",
    "Entity",
    "Conversation",
    "TurnTrace",
    "ValidatorRegistry",
    "MessageRoute",
    "EnhancementError",
    "JazzmineError",
    "NLUContext",
    "Policy",
    "ConversationState",
    "FlowInfo",
    "process_message",
    "FlowSelector",
    "FlowSelectionResult",
    "InMemoryMessageStore",
    "InMemoryWorkingMemoryStore",
    "QdrantProceduralMemory",
    "RedisWorkingMemoryStore",
    "SqlMessageStore",
]


def modules_after(code: str) -> set[str]:
    shown = f"{code}\nimport sys, json\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in json.loads(done.stdout)}


@pytest.mark.row("A5")
def test_the_import_brings_nothing_heavy() -> None:
    loaded = modules_after("import jazzmine_dspy")
    assert "jazzmine_dspy" in loaded
    assert not loaded & HEAVY
    assert "pydantic" not in loaded


@pytest.mark.row("A5")
def test_the_import_is_of_a_handful_of_modules() -> None:
    """What takes time is reading modules: with as few as these no machine needs 100 ms."""
    shown = "import sys\nbefore = set(sys.modules)\nimport jazzmine_dspy\nprint(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=True)
    assert "jazzmine_dspy" in done.stdout.split()
    assert len(done.stdout.split()) <= 40, sorted(done.stdout.split())


@pytest.mark.row("A5")
def test_the_contracts_bring_pydantic_alone() -> None:
    names = [name for name, home in jazzmine_dspy._HOMES.items() if home.startswith("models")]
    loaded = modules_after(f"from jazzmine_dspy import {', '.join(names)}")
    assert "pydantic" in loaded
    assert not loaded & HEAVY


@pytest.mark.row("A5")
def test_the_check_would_see_a_heavy_import() -> None:
    assert {"dspy", "numpy"} <= modules_after(
        "import jazzmine_dspy.program.turn, jazzmine_dspy.program.heads"
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name(name: str) -> None:
    assert getattr(jazzmine_dspy, name) is getattr(jazzmine_dspy, name)
    assert name in dir(jazzmine_dspy)


def test_what_is_exported_exists_and_what_does_not_says_so() -> None:
    assert set(jazzmine_dspy.__all__) <= set(NAMES)
    assert list(jazzmine_dspy.__all__) == sorted(
        jazzmine_dspy.__all__, key=lambda name: (name.islower(), name)
    )
    with pytest.raises(AttributeError, match="no attribute 'Turnip'"):
        _ = jazzmine_dspy.Turnip  # type: ignore[attr-defined]
