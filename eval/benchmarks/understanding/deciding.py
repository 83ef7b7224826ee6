"""Sets by other writers: the program, the program without its reader, the reader alone, and rewrites."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.intervals import summarise
from jazzmine_dspy.eval.metrics import TurnScores, mean
from jazzmine_dspy.models.commands import COMMANDS, Command
from jazzmine_dspy.models.decision import TurnDecision
from jazzmine_dspy.models.errors import EmbeddingError
from jazzmine_dspy.models.labels import Labels
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.program.deadline import Deadline
from jazzmine_dspy.program.decider import Decided, Decider
from jazzmine_dspy.program.reader.network import spoken, stems
from jazzmine_dspy.program.reader.reading import READER, second_reading
from jazzmine_dspy.program.state import TurnState
from jazzmine_dspy.program.turn import TurnProgram
from understanding.figures import Figure, figure
from understanding.ground import Ground
from understanding.programs import Programs
from understanding.rehearsal import staged

SECTION = "sets by other writers, without a language model"
_FILLERS = "yes no please want would like start the is"
"""Words that a rewrite may add."""


class WithoutReader(Programs):
    """The program without its reader, which needs the tokenizer of the embedding model."""

    def over(self, flows: FlowRegistry) -> TurnProgram:
        """The program over these flows."""
        program = super().over(flows)
        if not isinstance(program.bindings.embedder, NoTokenizer):
            program.bind(embedder=NoTokenizer(program.bindings.embedder))
        return program


class ReaderAlone(Programs):
    """The trained reader, without rules about English."""

    def over(self, flows: FlowRegistry) -> TurnProgram:
        """The program over these flows, decided by the reader."""
        program = super().over(flows).bind(deciders={READER: ReaderDecider()})
        program.policy = program.policy.model_copy(update={"deciders": ((READER, None),)})
        return program


class ReaderDecider(Decider):
    """Decides by the reader of the package; it decides nothing that the reader cannot read."""

    name = READER

    def decide(self, state: TurnState, so_far: Decided | None, deadline: Deadline) -> Decided:
        """Decide a turn."""
        del so_far, deadline
        answer = second_reading(state)
        if answer is None:
            raise EmbeddingError(next(iter(state.read_failures), "The reader cannot read this turn"))
        return answer


class NoTokenizer:
    """An embedding model without the file of its tokenizer."""

    tokenizer_file = None

    def __init__(self, model: Any) -> None:
        self._model = model

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


def figures(ground: Ground, programs: Programs) -> Iterator[Figure]:
    """Conversations of two registries, and four sets of single messages."""
    if not ground.others.registries:
        yield Figure(SECTION, "registries by other writers", note="the suite `deciding` is missing")
        return
    systems = {
        "program": programs,
        "the program without its reader": WithoutReader(programs.name),
        "the reader alone": ReaderAlone(programs.name),
    }
    turns, names = staged(ground.others), ", ".join(sorted(ground.others.registries))
    clusters = [each.conversation.id for each in turns]
    right = {name: system.on_suite(ground.others, turns)[1] for name, system in systems.items()}
    for name, by_key in right.items():
        rows: list[TurnScores] = [{"right": mean(by_key[each.key])} for each in turns]
        title = f"two registries ({names}): turns right" if name == "program" else f"· by {name}"
        metric = summarise(rows, clusters).get("right")
        yield figure(SECTION, title, metric, target=0.7 if name == "program" else None)
    messages = Messages(ground.others.path, ground.others.registries)
    for title, file, holds, wanted, most in (
        ("messages that request nothing: a flow started", "no_wish", _starts, 0.10, True),
        ("the same words as a request: the flow not started", "twins", _misses, 0.12, True),
        (
            "six more businesses, messages that request nothing: a flow started",
            "mentions",
            _starts,
            0.10,
            True,
        ),
        ("nearly the same words as a request: the flow not started", "requests", _misses, 0.12, True),
        ("first messages with two to four values: all right", "openings", _all_right, 0.65, False),
        ("messages that must start an urgent flow: started or asked", "must_start", _urgent, 0.95, False),
        ("harmless messages to the same businesses: started or asked", "harmless", _urgent, 0.06, True),
    ):
        for name, system in systems.items():
            rows = messages.judged(system, file, holds)
            metric = summarise(rows, [str(at) for at in range(len(rows))]).get("right")
            first = name == "program"
            more = {"target": wanted, "most": most} if first else {}
            yield figure(SECTION, title if first else f"· by {name}", metric, **more)
    yield from _rewrites(messages, programs)


def _rewrites(messages: Messages, programs: Programs) -> Iterator[Figure]:
    """Whether rewrites have all facts, invent none, and leave complete messages as they are."""
    rows: dict[str, list[TurnScores]] = {"facts": [], "invented": [], "kept": []}
    for data, row, decision in messages.decided(programs, "rewrites"):
        rewrite = decision.enhancement.enhanced_query if decision else ""
        if data.get("complete"):
            rows["kept"].append({"right": mean(rewrite == row.turn.text)})
            continue
        rows["facts"].append({"right": mean(all(fact.lower() in rewrite.lower() for fact in data["facts"]))})
        known = stems(f"{row.turn.model_dump_json()} {' '.join(map(spoken, row.flows))} {_FILLERS}")
        rows["invented"].append({"right": mean(not stems(rewrite) <= known)})
    for title, name, wanted, most in (
        ("messages that need a rewrite: it has all facts", "facts", 0.40, False),
        ("· it has a word that stands nowhere in the turn", "invented", 0.01, True),
        ("complete messages: kept as they are", "kept", 0.99, False),
    ):
        metric = summarise(rows[name], [str(at) for at in range(len(rows[name]))]).get("right")
        yield figure(SECTION, title, metric, target=wanted, most=most)


Judge = Callable[["Row", TurnDecision], bool]


class Row:
    """A message with what is expected of it."""

    def __init__(self, data: Mapping[str, Any], flows: FlowRegistry) -> None:
        self.turn, self.flows = Turn(**data["turn"]), flows
        alternatives = [data["expected_commands"], *data.get("also_right", ())]
        self.right = [[COMMANDS.validate_python(each) for each in commands] for commands in alternatives]


class Messages:
    """The sets of single messages."""

    def __init__(self, folder: Path, registries: Mapping[str, FlowRegistry]) -> None:
        self._folder, self._registries = folder, registries

    @cached_property
    def registries(self) -> dict[str, FlowRegistry]:
        """The flows by name; what a message of ``must_start`` must start is marked ``never_miss``."""
        urgent = {
            command["flow"]
            for each in self._rows("must_start")
            for command in each["expected_commands"]
            if command["type"] == "start_flow"
        }
        found = dict(self._registries)
        others = [
            json.loads((self._folder / f"{file}_registries.json").read_text("utf-8"))
            for file in ("urgent", "more")
        ]
        for name, data in (others[0] | others[1]).items():
            flows = [{**flow, "never_miss": flow["name"] in urgent} for flow in data["flows"]]
            found[name] = FlowRegistry(flows, region=data.get("region"), currency=data.get("currency"))
        return found

    def judged(self, system: Programs, file: str, holds: Judge) -> list[TurnScores]:
        """Whether something holds of each message's decision."""
        return [
            {"right": mean(decision is not None and holds(row, decision))}
            for _, row, decision in self.decided(system, file)
        ]

    def decided(
        self, system: Programs, file: str
    ) -> Iterator[tuple[dict[str, Any], Row, TurnDecision | None]]:
        """Each message of a set, with its decision."""
        for data in self._rows(file):
            row = Row(data, self.registries[data["registry"]])
            example = Example(
                conversation_id=data["id"], turn_id="1", turn=row.turn, labels=Labels(), role="test", line=1
            )
            yield data, row, system.evaluated(row.flows, [example]).turns[0].decision

    def _rows(self, file: str) -> list[dict[str, Any]]:
        lines = (self._folder / f"{file}.jsonl").read_text("utf-8").splitlines()
        return [json.loads(line) for line in lines]


def _form(commands: Sequence[Command]) -> frozenset[bytes]:
    return frozenset(COMMANDS.dump_json(command) for command in commands)


def _started(commands: Sequence[Command]) -> set[str]:
    return {command.flow for command in commands if command.type == "start_flow"}


def _starts(row: Row, decision: TurnDecision) -> bool:
    allowed = {name for commands in row.right for name in _started(commands)}
    return bool(_started(decision.commands) - allowed)


def _misses(row: Row, decision: TurnDecision) -> bool:
    return not any(_started(commands) <= _started(decision.commands) for commands in row.right)


def _all_right(row: Row, decision: TurnDecision) -> bool:
    return any(_form(decision.commands) == _form(commands) for commands in row.right)


def _urgent(row: Row, decision: TurnDecision) -> bool:
    offered = {name for command in decision.commands if command.type == "clarify" for name in command.flows}
    return bool((_started(decision.commands) | offered) & set(row.flows.never_miss))
