"""What is fitted on: the practice registries, turn by turn after the labelled conversation, and folds of them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from understanding.rehearsal import staged

from jazzmine_dspy import artifacts
from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.suite import load_suite
from jazzmine_dspy.models.base import sha256
from jazzmine_dspy.models.commands import StartFlow
from jazzmine_dspy.models.labels import Labels
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.program.heads.acts.model import Acts
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.turn import TurnProgram

ROOT = Path(__file__).resolve().parents[2]
PRACTICE = ROOT / "eval" / "suites" / "practice"
FOLDS = 4


@dataclass(frozen=True)
class Registry:
    """A registry with its labelled turns."""

    name: str
    flows: FlowRegistry
    examples: list[Example]

    @property
    def fold(self) -> int:
        """Which fold it is left out with; others stay where they are when one is added."""
        return int(hashlib.sha256(self.name.encode()).hexdigest(), 16) % FOLDS

    def program(self, head: Acts | None = None) -> TurnProgram:
        """A program over its flows, never compiled, that asks no language model; with a head of acts or without."""
        program = TurnProgram(self.flows, policy=Policy().named("local"))
        artifacts.bind_recall(program, "minilm")
        return program if head is None else program.bind(heads={**program.bindings.heads, "understand": head})


def practice(folder: Path = PRACTICE) -> list[Registry]:
    """All registries of a suite whose turns expect commands."""
    suite = load_suite(folder)
    held: dict[str, list[Example]] = {name: [] for name in suite.registries}
    for each in staged(suite):
        commands = each.conversation.turns[each.number - 1].expect.commands
        flows = tuple(command.flow for command in commands if isinstance(command, StartFlow))
        labels = Labels(commands=commands, flows=flows)
        held[each.conversation.registry].append(
            each.example.model_copy(update={"labels": labels, "role": "train"})
        )
    return [Registry(name, suite.registries[name], examples) for name, examples in held.items()]


def sha256_of(folder: Path) -> str:
    """SHA-256 over the files of a suite, by name."""
    return sha256([[file.name, sha256(file.read_bytes())] for file in sorted(folder.glob("*.yaml"))])
