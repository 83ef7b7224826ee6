"""Every kind of bad input is refused with file, line, field and remedy."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.datasets import check_dataset, load_dataset
from jazzmine_dspy.models.errors import DatasetError

FLOWS = (
    "flows:\n  - name: order_cake\n    description: Order a cake.\n    slots: [{name: flavour, type: text}]\n"
)
GOOD: dict[str, Any] = {"id": "good", "turns": [{"role": "user", "text": "hello there"}]}


def line(**turn: Any) -> dict[str, Any]:
    """The second line of a dataset, with one turn of the user that is spoilt."""
    return {"id": "bad", "turns": [{"role": "user", "text": "a plum cake"} | turn]}


def commands(*items: dict[str, Any]) -> dict[str, Any]:
    return {"labels": {"commands": list(items)}}


CASES: dict[str, tuple[Any, str, str, str]] = {
    "not JSON": (
        '{"id": "bad", "turns": [',
        "",
        "not JSON: EOF while parsing",
        "Write one JSON object a line",
    ),
    "not a finite number": (
        '{"id": "b", "x-n": NaN}',
        "",
        "expected value at column",
        "Write one JSON object",
    ),
    "nested too deeply": ("[" * 100_000, "", "recursion limit", "Write one JSON object"),
    "half a surrogate pair": (line(text="\ud83d cake"), "", "hex escape", "Write one JSON object"),
    "not an object": ([1, 2], "", "valid dictionary", "schema.json"),
    "id taken": (GOOD, "id", "'good' is already that of line 1", "Rename or remove"),
    "no turns": ({"id": "bad"}, "turns", "key 'turns' is missing", "Add it"),
    "an empty list of turns": ({"id": "bad", "turns": []}, "turns", "has no turn", "schema.json"),
    "empty text": (line(text=""), "turns.0.text", "text is empty", "Write what was said, or remove"),
    "blank text": (line(text=" \n "), "turns.0.text", "text is empty", "Write what was said, or remove"),
    "long text": (
        line(text="x" * 100_000),
        "turns.0.text",
        "has 100,000 characters; 8,000 are the limit",
        "Shorten the text",
    ),
    "unknown flow in flows": (
        line(labels={"flows": ["order_pie"]}),
        "turns.0.labels.flows.0",
        "Unknown flow 'order_pie'",
        "Add it to flows.yaml",
    ),
    "unknown flow in a command": (
        line(**commands({"type": "start_flow", "flow": "order_pie"})),
        "turns.0.labels.commands.0.flow",
        "Unknown flow 'order_pie'",
        "Add it to flows.yaml",
    ),
    "unknown flow to clarify": (
        line(**commands({"type": "clarify", "flows": ["order_cake", "order_pie"]})),
        "turns.0.labels.commands.0.flows.1",
        "Unknown flow 'order_pie'",
        "Add it to flows.yaml",
    ),
    "unknown running flow": (
        line(before={"flow": "order_pie"}),
        "turns.0.before.flow",
        "Unknown flow 'order_pie'",
        "Add it to flows.yaml",
    ),
    "unknown paused flow": (
        line(before={"paused": ["order_pie"]}),
        "turns.0.before.paused.0",
        "Unknown flow",
        "Add it to flows.yaml",
    ),
    "unknown flow to confirm": (
        line(before={"confirming": {"flow": "order_pie"}}),
        "turns.0.before.confirming.flow",
        "Unknown flow",
        "Add it to flows.yaml",
    ),
    "unknown slot in a command": (
        line(
            before={"flow": "order_cake"}, **commands({"type": "set_slot", "name": "icing", "value": "pink"})
        ),
        "turns.0.labels.commands.0.name",
        "Unknown slot 'icing' of the flow order_cake",
        "Add it to flows.yaml",
    ),
    "slot of no running flow": (
        line(**commands({"type": "set_slot", "name": "flavour", "value": "plum"})),
        "turns.0.labels.commands.0.name",
        "Unknown slot 'flavour' here, where no flow runs",
        "Add it to flows.yaml",
    ),
    "unknown slot held": (
        line(before={"flow": "order_cake", "slots": {"icing": 1}}),
        "turns.0.before.slots.icing",
        "Unknown slot 'icing'",
        "Add it to flows.yaml",
    ),
    "unknown slot awaited": (
        line(before={"flow": "order_cake", "awaiting": "icing"}),
        "turns.0.before.awaiting",
        "Unknown slot 'icing'",
        "Add it to flows.yaml",
    ),
    "unknown key": (
        line(labels={"sentimnt": 0.3}),
        "turns.0.labels.sentimnt",
        "Unknown key 'sentimnt'",
        "correct it to 'sentiment'",
    ),
    "unknown key far from any": (line(zzz=1), "turns.0.zzz", "Unknown key 'zzz'", "begins with 'x-'"),
    "unknown command": (
        line(**commands({"type": "start"})),
        "turns.0.labels.commands.0",
        "Unknown command 'start'",
        "Use one of: start_flow",
    ),
    "command without a type": (
        line(**commands({"flow": "order_cake"})),
        "turns.0.labels.commands.0",
        "command has no type",
        "Use one of",
    ),
    "command without a value": (
        line(**commands({"type": "set_slot", "name": "flavour"})),
        "turns.0.labels.commands.0.value",
        "'value' is missing",
        "Add it",
    ),
    "sentiment out of range": (
        line(labels={"sentiment": 2}),
        "turns.0.labels.sentiment",
        "less than",
        "schema.json",
    ),
    "sentiment as text": (
        line(labels={"sentiment": "0.3"}),
        "turns.0.labels.sentiment",
        "valid number",
        "schema.json",
    ),
    "yes for true": (
        line(labels={"is_cancellation": "yes"}),
        "turns.0.labels.is_cancellation",
        "valid boolean",
        "schema.json",
    ),
    "labels of the assistant": (
        line(role="assistant", labels={"flows": []}),
        "turns.0.labels",
        "only a user's message has labels",
        "schema.json",
    ),
    "turn id taken": (
        {"id": "bad", "turns": [{"role": "user", "text": "a"}, {"role": "user", "id": "t1", "text": "b"}]},
        "turns.1.id",
        "Turn id 't1' is already that of turn 0",
        "Rename",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_bad_line_is_refused(write: Callable[..., Path], case: str) -> None:
    bad, field, message, remedy = CASES[case]
    folder = write([GOOD, bad], flows=FLOWS)
    with pytest.raises(DatasetError) as caught:
        load_dataset(folder)
    text = str(caught.value)
    assert f"{folder / 'conversations.jsonl'}:2{f', field {field})' if field else ')'}" in text
    assert message in text
    assert remedy in text
    assert len(text) < 600, "the offending text itself is not repeated"
    found = [problem for problem in check_dataset(folder).errors if problem.line == 2]
    assert caught.value.where in {problem.where for problem in found}


def test_bytes_that_are_no_utf_8_are_refused(write: Callable[..., Path]) -> None:
    folder = write([GOOD], flows=FLOWS)
    with (folder / "conversations.jsonl").open("ab") as stream:
        stream.write(b'{"id": "caf\xe9"}\n')
    with pytest.raises(DatasetError, match=r"conversations\.jsonl:2.*UTF-8|UTF-8.*conversations\.jsonl:2"):
        load_dataset(folder)


def test_a_slot_with_no_type_is_refused(write: Callable[..., Path]) -> None:
    folder = write([GOOD], flows=FLOWS.replace(", type: text", ""))
    with pytest.raises(
        DatasetError, match=r"Slot 'flavour' has no type .*flows\.yaml:4.*slots\.0\.type.* Give it one of"
    ):
        load_dataset(folder)
    problem = check_dataset(folder).errors[0]
    assert (problem.file, problem.line) == (str(folder / "flows.yaml"), 4)
    assert "slots.0.type" in problem.field


@pytest.mark.parametrize(
    ("flows", "message"),
    [
        (None, r"Cannot read the flows.*flows\.yaml"),
        ("flows: [", r"Not valid YAML.*flows\.yaml:\d"),
        ("flows: none", r"No list of flows.*flows\.yaml"),
        (FLOWS + FLOWS.removeprefix("flows:\n"), r"'order_cake' is defined twice.*flows\.yaml:5.*Rename"),
    ],
)
def test_broken_flows_are_refused(write: Callable[..., Path], flows: str | None, message: str) -> None:
    folder = write([GOOD], flows=flows)
    with pytest.raises(DatasetError, match=message):
        load_dataset(folder)
    assert not check_dataset(folder).ok


def test_flows_that_are_no_utf_8_are_refused(write: Callable[..., Path]) -> None:
    folder = write([GOOD], flows=None)
    (folder / "flows.yaml").write_bytes(b"flows: [caf\xe9]")
    with pytest.raises(DatasetError, match=r"not UTF-8: .*flows\.yaml"):
        load_dataset(folder)


def test_an_empty_split_is_refused(write: Callable[..., Path]) -> None:
    dataset = load_dataset(write([GOOD], flows=FLOWS, roles={"train": ["good"]}))
    for role in ("dev_a", "test"):
        with pytest.raises(
            DatasetError, match=rf"'{role}' is empty .*splits\.json, field roles\.{role}.*`datasets split`"
        ):
            dataset.examples(role)
    with pytest.raises(DatasetError, match="'train' has no labelled turn"):
        dataset.examples("train")


def test_an_unknown_split_is_refused(folder: Path) -> None:
    dataset = load_dataset(folder)
    with pytest.raises(DatasetError, match=r"Unknown split 'dev'.* Use: train, dev_a, dev_b, test"):
        dataset.examples("dev")
    with pytest.raises(DatasetError, match="No split is named"):
        dataset.examples()


def test_no_folder_and_no_conversations(tmp_path: Path, write: Callable[..., Path]) -> None:
    for function in (load_dataset, check_dataset):
        with pytest.raises(DatasetError, match=r"No such dataset folder .*nowhere.* Name a folder"):
            function(tmp_path / "nowhere")
    folder = write([], flows=FLOWS)
    with pytest.raises(DatasetError, match="no conversation"):
        load_dataset(folder)
    (folder / "conversations.jsonl").unlink()
    with pytest.raises(DatasetError, match="Cannot read the conversations"):
        load_dataset(folder)


def edit(folder: Path, **changes: Any) -> None:
    path = folder / "splits.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | changes, indent=1), "utf-8")


@pytest.mark.row("D4")
def test_splits_edited_by_hand_are_refused(folder: Path) -> None:
    edit(folder, roles={"train": ["rye", "malt"], "dev_a": ["spelt"], "dev_b": ["oat"], "test": []})
    with pytest.raises(DatasetError, match=r"edited by hand .*splits\.json:\d+.* write them again"):
        load_dataset(folder)


@pytest.mark.row("D4")
@pytest.mark.parametrize(
    ("roles", "message"),
    [
        ({"train": ["rye", "spelt", "oat"]}, r"'malt' has no role .*conversations\.jsonl:4"),
        (
            {"train": ["rye", "spelt", "oat", "malt", "bran"]},
            r"no conversation 'bran' .*splits\.json:\d+, field roles\.train",
        ),
        (
            {"train": ["rye", "spelt", "oat", "malt"], "test": ["rye"]},
            r"'rye' has two roles .*field roles\.test",
        ),
        ({"training": ["rye"]}, r"splits\.json, field roles\.training"),
    ],
)
def test_splits_that_do_not_fit_are_refused(folder: Path, roles: dict[str, Any], message: str) -> None:
    from jazzmine_dspy.datasets.split import roles_hash

    edit(folder, roles=roles, sha256=roles_hash(roles))  # type: ignore[arg-type]
    with pytest.raises(DatasetError, match=message):
        load_dataset(folder)


def test_splits_that_are_no_json_are_refused(folder: Path) -> None:
    (folder / "splits.json").write_text('{"seed": 1,\n "roles": }', "utf-8")
    with pytest.raises(DatasetError, match=r"splits cannot be read.*splits\.json:2"):
        load_dataset(folder)
