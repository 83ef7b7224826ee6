"""`datasets check`, `datasets stats`, `flows check`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy import load
from jazzmine_dspy.cli.datasets import by_kind
from jazzmine_dspy.datasets import Problem
from jazzmine_dspy.models.errors import FlowError

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.row("D3")
def test_a_sound_dataset_passes(run: Any, dataset: Path) -> None:
    done = run("datasets", "check", dataset)
    assert done.code == 0
    assert "12 conversations" in done.out
    assert "0 errors" in done.out
    report = run("datasets", "check", dataset, "--json").json
    assert report["ok"]
    assert report["turns_by_role"] == {"train": 20, "dev_a": 6, "dev_b": 6, "test": 5}
    assert (
        "few conversations: on other datasets, compiling improved on the base from about 50 labelled conversations"
        in done.out
    )
    assert "few conversations" not in run("datasets", "check", ROOT / "datasets" / "support").out


@pytest.mark.row("D3")
def test_problems_are_told_by_kind_with_counts(run: Any, dataset: Path) -> None:
    report = run("datasets", "check", dataset, "--json").json
    lacking = [one["field"] for one in report["problems"] if "has no turn with" in one["message"]]
    assert lacking == ["roles.dev_a", "roles.dev_b", "roles.test", "roles.train"], "one line for each split"
    out = run("datasets", "check", dataset).out
    assert "The split 'test' has no turn with the commands 'affirm', 'ask', " in out
    assert "'resume_flow' and 1 more. Add turns" in out
    assert "No turn has the command …: 2, such as\n" in out
    assert len(out.splitlines()) <= 30
    assert f"--all prints each of the {len(report['problems'])} problems" in out
    everything = run("datasets", "check", dataset, "--all").out
    for problem in report["problems"]:
        assert f"{problem['message']}. {problem['remedy']}" in everything
    assert "--all" not in everything


def test_ten_kinds_are_shown_and_the_rest_is_counted() -> None:
    def problem(message: str, line: int) -> Problem:
        return Problem(severity="warning", file="f", line=line, message=message, remedy="Do it.")

    kinds = [problem("bad " + "x" * number, number) for number in range(1, 13)]
    told = by_kind([*kinds, problem("bad xxxxxxxxxxxx", 99)])
    assert told[-2:] == ["and 3 problems of 2 other kinds", "--all prints each of the 13 problems"]
    assert told[0] == "warning: f:1\n  bad x. Do it."
    same = by_kind(
        [problem("Input should be 'a' or 'b', not 'c'", 1), problem("Input should be 'a' or 'b', not 'd'", 2)]
    )
    assert same[0] == "warning: Input should be … or …, not …: 2, such as"
    assert same[1] == "  f:1: Input should be 'a' or 'b', not 'c'"
    assert same[3] == "  Do it."
    assert by_kind([]) == []


def test_what_cannot_be_loaded_is_bad_input_and_all_of_it_is_listed(run: Any, dataset: Path) -> None:
    path = dataset / "conversations.jsonl"
    lines = path.read_text("utf-8").splitlines()
    lines[1], lines[4] = "{", lines[4].replace('"ask"', '"aks"')
    path.write_text("\n".join(lines), "utf-8")
    done = run("datasets", "check", dataset)
    assert done.code == 2
    assert "conversations.jsonl:2" in done.out
    assert "conversations.jsonl:5" in done.out
    report = run("datasets", "check", dataset, "--json").json
    assert not report["ok"]
    assert report["error"]["where"].endswith("conversations.jsonl:2")
    assert {problem["line"] for problem in report["problems"] if problem["severity"] == "error"} >= {2, 5}


def test_labels_that_contradict_each_other_fail_the_check(run: Any, dataset: Path) -> None:
    path = dataset / "conversations.jsonl"
    first, *rest = path.read_text("utf-8").splitlines()
    data = json.loads(first)
    data["turns"][0]["labels"]["flows"] = []
    path.write_text("\n".join([json.dumps(data), *rest]), "utf-8")
    done = run("datasets", "check", dataset)
    assert done.code == 1
    assert "turns.0.labels.flows" in done.out


def test_stats(run: Any, dataset: Path) -> None:
    done = run("datasets", "stats", dataset)
    assert done.code == 0
    assert "book_repair" in done.out
    stats = run("datasets", "stats", dataset, "--json").json
    assert stats["total"]["conversations"] == 12
    assert set(stats["roles"]) == {"train", "dev_a", "dev_b", "test"}


@pytest.mark.row("F1")
def test_sound_flows_pass(run: Any, dataset: Path) -> None:
    report = run("flows", "check", dataset / "flows.yaml", "--json").json
    assert report["ok"]
    assert report["flows"] == ["book_repair", "rent_bike", "repair_status"]
    # It only looks something up.
    problems = [(each["severity"], each["field"]) for each in report["problems"]]
    assert problems == [("warning", "flow 'repair_status', confirm")]
    assert run("flows", "check", dataset).code == 0


def test_two_flows_with_one_example_fail_the_check(run: Any, dataset: Path) -> None:
    path = dataset / "flows.yaml"
    path.write_text(
        path.read_text("utf-8").replace("any news on F120", "My chain keeps  falling off"), "utf-8"
    )
    done = run("flows", "check", path)
    assert done.code == 1
    assert "'repair_status', examples" in done.out
    assert "'book_repair'" in done.out


def test_thin_flows_are_warned_of(run: Any, tmp_path: Path) -> None:
    slots = "\n    slots: [{name: sum, type: money}]"
    (tmp_path / "flows.yaml").write_text(f"flows:\n  - name: pay\n    description: Pay.{slots}\n", "utf-8")
    done = run("flows", "check", "flows.yaml", "--json")
    assert done.code == 0
    fields = [problem["field"] for problem in done.json["problems"]]
    assert fields == ["about", "flow 'pay', examples", "flow 'pay', condition", "flow 'pay', slot 'sum'"]
    assert "1 flow, 0 errors, 4 warnings" in run("flows", "check", "flows.yaml").out


ROUTED = """
about: a shop
flows:
  - name: track_order
    description: Tell where an order is.
    condition: There is an order.
    examples: [where is my order, track my order, has my order been sent]
    keywords: [order, refund]
  - name: refund
    description: Pay money back.
    condition: The customer wants money back.
    examples: [I want a refund, give me my money back, please pay me back]
    keywords: [refund, "  "]
  - name: staff_refund
    description: Pay back without asking.
    condition: Staff only.
    guards: [{user: {group: staff}}]
    examples: [refund it now, pay it back now, refund this one]
"""


@pytest.mark.row("F1")
def test_examples_and_keywords_that_select_another_flow_are_named(run: Any, tmp_path: Path) -> None:
    (tmp_path / "flows.yaml").write_text(ROUTED.replace("[order, refund]", "[order, refund it]"), "utf-8")
    report = run("flows", "check", "flows.yaml", "--json").json
    routed = [(each["field"], each["message"]) for each in report["problems"] if "selects" in each["message"]]
    assert routed == [("flow 'track_order', keywords", "'refund it' selects 'refund'")]
    assert report["texts"] == {"all": 13, "run": 9}, "neither a blank keyword nor those of a flow with guards"
    out = run("flows", "check", "flows.yaml").out
    assert "language models read: a shop" in out
    assert "select another flow: 1 of 9 examples and keywords; 4 were not run" in out
    # A keyword of both is no mistake of one.
    (tmp_path / "flows.yaml").write_text(ROUTED, "utf-8")
    assert "selects" not in run("flows", "check", "flows.yaml").out


def test_of_many_flows_some_are_run(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jazzmine_dspy.cli._flow_problems._MOST_FLOWS", 2)
    monkeypatch.setattr("jazzmine_dspy.cli._flow_problems._MOST_TEXTS", 4)
    (tmp_path / "flows.yaml").write_text(ROUTED, "utf-8")
    assert run("flows", "check", "flows.yaml", "--json").json["texts"] == {"all": 13, "run": 4}


WRONG = """\
abuot: a shop
region: Great Britain
flows:
  - name: a
    descripton: Do a.
    slots: [{name: s}, {name: t, type: txt}]
  - name: b
    description: Do b.
  - name: b
    description: Do b again.
  - word
"""


@pytest.mark.row("F1")
def test_all_errors_of_a_file_are_listed_at_once(run: Any, tmp_path: Path) -> None:
    (tmp_path / "flows.yaml").write_text(WRONG, "utf-8")
    done = run("flows", "check", "flows.yaml")
    assert done.code == 2
    places = [line.split(": ", 1)[1] for line in done.err.splitlines() if line.startswith("  where: ")]
    assert places == [
        "flows.yaml:1, field abuot",
        "flows.yaml, field region",
        "flows.yaml:5, flow 'a', field descripton",
        "flows.yaml:6, flow 'a', field slots.0.type",
        "flows.yaml:6, flow 'a', field slots.1.type",
        "flows.yaml:9, flow 'b'",
        "flows.yaml:11, flow 'number 4'",
    ]
    report = run("flows", "check", "flows.yaml", "--json").json
    assert [each["where"] for each in (report["error"], *report["others"])] == places
    assert report["error"]["remedy"] == "Did you mean 'about'?"


VALIDATED = """
about: a shop
flows:
  - name: find_order
    description: Find an order.
    condition: There is an order.
    examples: [find my order, where is my order, look up an order]
    slots: [{name: code, type: text, pattern: 'A\\d{3}', ask: "Which code?", validator: code_exists}]
"""


@pytest.mark.row("U8")
def test_commands_go_on_without_a_validator_that_python_attaches(run: Any, dataset: Path) -> None:
    (dataset / "mine.yaml").write_text(VALIDATED, "utf-8")
    told = "the validator 'code_exists' is attached in Python; this command does not run it"
    done = run("flows", "check", dataset / "mine.yaml")
    assert (done.code, done.err.count(told)) == (0, 1)
    talk = run("chat", "base", "--flows", dataset / "mine.yaml", stdin="find my order\n102\n")
    assert talk.code == 0
    assert "[find_order runs here]" in talk.out
    assert talk.err.count(told) == 1
    flows = dataset / "flows.yaml"
    flows.write_text(
        flows.read_text("utf-8").replace("type: date", "type: date\n        validator: is_open"), "utf-8"
    )
    checked = run("datasets", "check", dataset)
    assert checked.code == 0
    assert "'is_open' is attached in Python" in checked.err
    with pytest.raises(FlowError, match="Unknown validator 'code_exists'"):
        load("base", flows=dataset / "mine.yaml", bind=False)


@pytest.mark.row("S4")
def test_marks_that_cannot_help_are_warned_of(run: Any, tmp_path: Path) -> None:
    flow = "  - {{name: {0}, description: Do {0}., condition: c, never_miss: true{1},\n" \
           "     examples: [{0} one, {0} two, {0} three]}}\n"  # fmt: skip
    guard = ", guards: [{status: [idle]}]"
    (tmp_path / "flows.yaml").write_text(
        f"about: a shop\nflows:\n{flow.format('a', guard)}{flow.format('b', '')}", "utf-8"
    )
    fields = [one["field"] for one in run("flows", "check", "flows.yaml", "--json").json["problems"]]
    assert fields == ["flows, never_miss", "flow 'a', never_miss"]


WRONG_TEXTS = """
about: a shop
flows:
  - name: cancel_order
    description: Call off an order.
    condition: There is an order.
    examples: [cancel my order, stop it, I changed my mind]
    tools: [orders.cancel]
    confirm: "Cancel {ordr_id}?"
    responses: {done: "Order {order_id} is gone, {task} by {who}.", clarify: "Which of {tasks}?", refused: "{reason}!"}
    slots:
      - {name: order_id, type: text, ask: "Which {order id}?", reask: "Which one, {order_id} or {other}?"}
      - {name: reason_why, type: text, required: false}
  - name: track_order
    description: Tell where an order is.
    condition: There is an order.
    examples: [where is my order, track my parcel, has it been sent]
    tools: [orders.lookup]
"""


@pytest.mark.row("F1", "S3")
def test_texts_that_name_no_slot_are_refused(run: Any, tmp_path: Path) -> None:
    (tmp_path / "flows.yaml").write_text(WRONG_TEXTS, "utf-8")
    done = run("flows", "check", "flows.yaml", "--json")
    assert done.code == 2
    error, *others = (done.json["error"], *done.json["others"])
    assert error["message"] == "Flow 'cancel_order': the text names {ordr_id}, which is not known there"
    assert error["where"] == "flows.yaml:9, flow 'cancel_order', field confirm"
    assert error["remedy"] == "Did you mean 'order_id'?"
    assert [each["where"].split()[-1] for each in others] == [
        "responses.done",
        "slots.0.ask",
        "slots.0.reask",
    ]


@pytest.mark.row("F1", "W6")
def test_a_confirmation_that_hides_a_slot_is_warned_of(run: Any, tmp_path: Path) -> None:
    sound = WRONG_TEXTS.replace("{ordr_id}", "{reason_why}").replace(" by {who}", "")
    sound = sound.replace("{order id}", "{order_id}").replace("{other}", "{task}")
    (tmp_path / "flows.yaml").write_text(sound, "utf-8")
    done = run("flows", "check", "flows.yaml", "--json")
    assert done.code == 0
    assert [(each["severity"], each["field"], each["message"]) for each in done.json["problems"]] == [
        (
            "warning",
            "flow 'cancel_order', confirm",
            "The confirmation never shows the slot 'order_id', which the flow needs",
        ),
        ("warning", "flow 'track_order', confirm", "The flow has tools and runs them without asking"),
        ("warning", "title", "2 slots without a title: customers read 'order id'"),
    ]


@pytest.mark.row("D2")
def test_the_shipped_flows_pass(run: Any) -> None:
    assert run("flows", "check", ROOT / "datasets" / "support" / "flows.yaml").code == 0


@pytest.mark.row("S3")
def test_names_that_customers_would_read_are_counted(run: Any, tmp_path: Path) -> None:
    slots = "[{name: arrive_on, type: date}, {name: day, type: date}, {name: left_at, type: time, title: the hour}]"
    part = "{name: leave, description: Leave., slots: [{name: leave_on, type: date}]}"
    (tmp_path / "flows.yaml").write_text(
        f"flows:\n- {{name: berth, description: A berth., kind: sequential, slots: {slots}, subflows: [{part}]}}\n"
    )
    out = run("flows", "check", tmp_path / "flows.yaml").out
    assert "2 slots without a title: customers read 'arrive on'. Write what they should read" in out
