"""Public dialogues, without a language model: SGD under its own wording and that of SGD-X, and STAR."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from importers import SOURCES

from jazzmine_dspy.datasets import Example, load_dataset
from jazzmine_dspy.eval.evaluation import Evaluation, TurnResult
from jazzmine_dspy.eval.intervals import summarise
from jazzmine_dspy.eval.metrics import mean
from jazzmine_dspy.eval.significance import paired_metric
from jazzmine_dspy.models.errors import InputError
from understanding.figures import PART_OF, Figure, figure
from understanding.ground import Ground
from understanding.programs import Programs

SGD = "SGD, dev dialogues, without a language model"
STAR = "STAR, 144 dialogues, without a language model"
VARIANTS = ("v1", "v5")
DROP = 0.05
KINDS = {
    "slot values": "slot_value_f1",
    "correction": "command_f1/correct_slot",
    "confirmation": "command_f1/affirm",
    "denial": "command_f1/deny",
    "information request": "command_f1/ask",
}
CHANGE = "command_f1/start_flow"


def sgd(ground: Ground, programs: Programs) -> Iterator[Figure]:
    """F1 of each kind of command, and how much of it is lost under other wordings of the same schema."""
    source = ground.data / "sgd"
    if not (source / "dev" / "schema.json").is_file():
        yield Figure(SGD, "F1 by kind", note=f"skipped: there is no {source / 'dev' / 'schema.json'}")
        return
    own = _decided(source / "dev" / "schema.json", source / "dev", programs)
    rows, clusters = _rows(own)
    found = summarise(rows, clusters, only=[*KINDS.values(), CHANGE])
    for what, name in {**KINDS, "intent change (another flow runs)": CHANGE}.items():
        yield figure(SGD, _title("F1", what), found.get(name))
    for variant in VARIANTS:
        schema = source / "sgd_x" / "data" / variant / "dev" / "schema.json"
        if not schema.is_file():
            yield Figure(SGD, f"drop under SGD-X {variant}", note=f"skipped: there is no {schema}")
            continue
        yield from _drops(own, _decided(schema, source / "dev", programs), variant)


def _title(measured: str, kind: str) -> str:
    """The first kind names what is measured; the others are parts of its row."""
    return f"{measured}, {kind}" if kind == next(iter(KINDS)) else f"{PART_OF}{kind}"


def _drops(own: Evaluation, other: Evaluation, variant: str) -> Iterator[Figure]:
    """How much lower each F1 is; the turns are the same ones."""
    (rows, clusters), (theirs, _) = _rows(own), _rows(other)
    for what, name in {**KINDS, "intent change": CHANGE}.items():
        title = _title(f"drop under SGD-X {variant}", what)
        try:
            drop = paired_metric(rows, theirs, clusters, name)
        except InputError:
            yield Figure(SGD, title, note="no such turn", target=DROP, most=True, unit="points")
            continue
        yield Figure(
            SGD, title, drop.value, drop.low, drop.high, drop.n,
            len(set(clusters)), target=DROP, most=True, unit="points",
        )  # fmt: skip


def _rows(found: Evaluation) -> tuple[list[Mapping[str, Any]], list[str]]:
    """Scores, in which a start counts as a change of intent only where a flow runs."""
    rows: list[Mapping[str, Any]] = []
    for turn in found.turns:
        kept = dict(turn.scores)
        if turn.example.turn.flow is None:
            kept.pop(CHANGE, None)
        rows.append(kept)
    return rows, [turn.example.conversation_id for turn in found.turns]


def _decided(schema: Path, dialogues: Path, programs: Programs) -> Evaluation:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "source"
        folder.mkdir()
        old, new = (json.loads(path.read_text("utf-8")) for path in (dialogues / "schema.json", schema))
        (folder / "schema.json").write_text(json.dumps(new), "utf-8")
        for file in sorted(dialogues.glob("dialogues_*.json")):
            said = reworded(json.loads(file.read_text("utf-8")), old, new)
            (folder / file.name).write_text(json.dumps(said), "utf-8")
        return _imported("sgd", folder, Path(made) / "dataset", programs, _is_scored)


def _is_scored(example: Example) -> bool:
    return example.labels.commands is not None


def _imported(
    kind: str, source: Path, out: Path, programs: Programs, keep: Callable[[Example], bool]
) -> Evaluation:
    SOURCES[kind].convert(source, out=out, replace=True)
    dataset = load_dataset(out)
    examples = [one for part in ("train", "dev_a", "dev_b") for one in dataset.examples(part) if keep(one)]  # type: ignore[arg-type]
    return programs.evaluated(dataset.flows, sorted(examples, key=lambda example: example.line))


def reworded(dialogues: list[Any], old: Sequence[Any], new: Sequence[Any]) -> list[Any]:
    """SGD's dialogues in the names of another schema, which has services, intents and slots in the same order.

    Raises:
        ValueError: it has not.

    Example:
        >>> old = [{"service_name": "Banks_2", "slots": [{"name": "sum"}], "intents": [{"name": "Pay"}]}]
        >>> new = [{"service_name": "Banks_25", "slots": [{"name": "total"}], "intents": [{"name": "Send"}]}]
        >>> action = {"act": "INFORM", "slot": "sum"}
        >>> state = {"active_intent": "Pay", "slot_values": {"sum": ["5"]}, "requested_slots": []}
        >>> frames = [{"service": "Banks_2", "actions": [action], "state": state, "slots": []}]
        >>> made = reworded([{"services": ["Banks_2"], "turns": [{"frames": frames}]}], old, new)[0]
        >>> frame = made["turns"][0]["frames"][0]
        >>> made["services"], frame["service"], frame["actions"][0]["slot"], frame["state"]["slot_values"]
        (['Banks_25'], 'Banks_25', 'total', {'total': ['5']})
    """
    names = {one["service_name"]: _Names(one, other) for one, other in zip(old, new, strict=True)}
    return [
        {
            **dialogue,
            "services": [names[service].service for service in dialogue["services"]],
            "turns": [
                {**turn, "frames": [names[frame["service"]].frame(frame) for frame in turn["frames"]]}
                for turn in dialogue["turns"]
            ],
        }
        for dialogue in dialogues
    ]


class _Names:
    """Names of one service's parts in the other wording."""

    def __init__(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        self.service = new["service_name"]
        self._slots = _pairs(old["slots"], new["slots"])
        self._intents = {**_pairs(old["intents"], new["intents"]), "NONE": "NONE"}

    def frame(self, frame: Mapping[str, Any]) -> dict[str, Any]:
        made = {**frame, "service": self.service}
        for key in ("actions", "slots"):
            made[key] = [{**each, "slot": self._slot(each["slot"])} for each in frame.get(key, ())]
        if "state" in frame:
            state = frame["state"]
            made["state"] = {
                **state,
                "active_intent": self._intents[state["active_intent"]],
                "requested_slots": [self._slot(name) for name in state["requested_slots"]],
                "slot_values": {self._slot(name): value for name, value in state["slot_values"].items()},
            }
        return made

    def _slot(self, name: str) -> str:
        # Some acts name no slot, or speak of "intent" and "count".
        return self._slots.get(name, name)


def _pairs(old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    if [one.get("is_categorical") for one in old] != [one.get("is_categorical") for one in new]:
        raise ValueError("the schemas do not have the same parts in the same order")
    return {one["name"]: other["name"] for one, other in zip(old, new, strict=True)}


def star(ground: Ground, programs: Programs) -> Iterator[Figure]:
    """Turns to another task while a question is open, and back to one that ran earlier."""
    source = ground.data / "star"
    if not (source / "dialogues").is_dir():
        yield Figure(STAR, "switch and resume", note=f"skipped: there is no {source / 'dialogues'}")
        return
    with tempfile.TemporaryDirectory() as made:
        found = _imported(
            "star", source, Path(made) / "dataset", programs, lambda one: one.labels.flows is not None
        )
    wanted: dict[str, Callable[[TurnResult], bool]] = {
        "switch to a new task while a question is open": lambda turn: (
            "switch" in turn.example.tags and "return" not in turn.example.tags and _asked(turn)
        ),
        "resume: back to a task that ran earlier": lambda turn: "return" in turn.example.tags,
        "no switch, while a question is open": lambda turn: (
            turn.example.turn.flow is not None and not turn.example.labels.flows and _asked(turn)
        ),
    }
    clusters = [turn.example.conversation_id for turn in found.turns]
    for what, keep in wanted.items():
        rows = [_turned(turn) if keep(turn) else {} for turn in found.turns]
        yield figure(STAR, f"{what}: flows right", summarise(rows, clusters).get("right"))


def _asked(turn: TurnResult) -> bool:
    """Whether what the assistant said last ends with a question."""
    said = [message.text for message in turn.example.turn.history if message.role == "assistant"]
    return bool(said) and said[-1].rstrip().endswith("?")


def _turned(turn: TurnResult) -> Mapping[str, Any]:
    """Whether the message turns to the right flows, started or resumed."""
    gold, decision = set(turn.example.labels.flows or ()), turn.decision
    turned = {
        flow for each in (decision.commands if decision else ()) if (flow := each.opens(turn.example.turn))
    }
    turned |= set(decision.selection.flows) if decision else set()
    return {"right": mean(decision is not None and turned == gold)}
