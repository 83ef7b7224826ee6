"""From service to labels: exported conversations, with the program's guesses, least confident first."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy import Runtime
from jazzmine_dspy.datasets import check_dataset, load_dataset
from jazzmine_dspy.datasets.candidates import GUESS, export_candidates, pages_of
from jazzmine_dspy.datasets.importers import import_dataset
from jazzmine_dspy.datasets.redaction import Redactor
from jazzmine_dspy.memory.messages import InMemoryMessageStore
from jazzmine_dspy.models import Enhancement, FlowRegistry, Message, Selection, TurnDecision
from jazzmine_dspy.models.decision import StageRecord
from jazzmine_dspy.models.errors import DatasetError
from jazzmine_dspy.models.messages import TurnTrace
from shop_talks import ByHand

FLOWS = Path(__file__).resolve().parents[2] / "jazzmine_dspy" / "cli" / "_starter" / "flows.yaml"
HIRE = [{"type": "start_flow", "flow": "rent_bike"}]
TALKS: dict[str, dict[str, tuple[float, list[dict[str, Any]]]]] = {
    "sure": {"could I hire one": (0.9, HIRE)},
    "+44 20 7946 0958": {
        "I want to hire a bike": (0.8, HIRE),
        "medium": (0.95, [{"type": "set_slot", "name": "size", "value": "medium"}]),
        "my chain keeps falling off": (
            0.4,
            [
                {"type": "start_flow", "flow": "book_repair"},
                {"type": "set_slot", "name": "fault", "value": "chain keeps falling off"},
            ],
        ),
        "mail ada.king@web.de or call 020 7946 0958": (0.3, [{"type": "chitchat"}]),
        "hmm": (0.6, [{"type": "clarify", "flows": ["rent_bike"]}]),
    },
}


@pytest.fixture
async def kept() -> InMemoryMessageStore:
    """Two conversations that were had."""
    table = {
        text: TurnDecision(
            enhancement=Enhancement(enhanced_query=text, intent="hire"),
            selection=Selection(),
            commands=commands,
            stages={"understand": StageRecord(source="local", confidence=confidence)},
        )
        for talk in TALKS.values()
        for text, (confidence, commands) in talk.items()
    }
    program = ByHand(FlowRegistry.from_yaml(FLOWS), table, table["hmm"])
    runtime = Runtime(program, agent_id="shop", clock=lambda: 1_700_000_000.0)
    for conversation_id, texts in TALKS.items():
        for number, text in enumerate(texts):
            await runtime.process(
                conversation_id=conversation_id,
                user_id="u1",
                text=text,
                message_id=f"{conversation_id}-{number}",
            )
    assert isinstance(runtime.messages, InMemoryMessageStore)
    return runtime.messages


def _lines(folder: Path) -> list[Any]:
    return [json.loads(line) for line in (folder / "candidates.jsonl").read_text("utf-8").splitlines()]


def _users(line: Any) -> list[Any]:
    return [turn for turn in line["turns"] if turn["role"] == "user"]


@pytest.mark.row("D6")
async def test_what_comes_back_is_the_turn_that_was_decided(
    kept: InMemoryMessageStore, tmp_path: Path
) -> None:
    """States, texts and labels: of an export in which every guess was confirmed."""
    pages = pages_of(kept.get_conversations_by_agent_id, "shop")
    ids = [one.id async for page in pages for one in page]
    made = await export_candidates(kept, ids, flows=FLOWS, out=tmp_path / "out")
    assert (made.conversations, made.turns, made.replaced, made.left_out) == (2, 6, None, ())
    lines = _lines(tmp_path / "out")
    for line in lines:
        for turn in line["turns"]:
            turn.pop(GUESS, None)
    (tmp_path / "done").mkdir()
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "done" / "candidates.jsonl").write_text(text, "utf-8")
    parts = [("train", tmp_path / "done")]
    report = import_dataset("candidates", out=tmp_path / "made", splits=parts, dev_share=0.0, flows=FLOWS)
    assert (report.labelled_turns, report.left_out) == (6, 0)
    assert not check_dataset(tmp_path / "made").errors
    examples = {one.turn.text: one for one in load_dataset(tmp_path / "made").examples("train")}
    for conversation_id, texts in TALKS.items():
        for number, said in enumerate(texts):
            message = await kept.get_message(f"{conversation_id}-{number}")
            assert message is not None
            assert message.state is not None
            turn = examples[said].turn
            assert turn.model_dump(mode="json", include=set(message.state)) == message.state
            assert examples[said].labels.intent == message.intent
    assert examples["hmm"].turn.flow == "book_repair"
    assert examples["hmm"].turn.paused == ("rent_bike",)
    assert examples["hmm"].turn.paused_slots.as_dict() == {"rent_bike": {"size": "medium"}}


@pytest.mark.row("D6", "D8")
async def test_a_conversation_of_two_days_keeps_both(tmp_path: Path) -> None:
    flows = FlowRegistry.from_yaml(FLOWS)
    decision = TurnDecision(enhancement=Enhancement(enhanced_query="hmm"), selection=Selection())
    times = iter([1_700_000_000.0, 1_700_000_000.0 + 86_400])
    runtime = Runtime(ByHand(flows, {}, decision), agent_id="shop")
    for time in times:
        now = dt.datetime.fromtimestamp(time, dt.UTC)
        await runtime.process(conversation_id="c", user_id="u", text="hmm", now=now)
    await export_candidates(runtime.messages, ["c"], flows=FLOWS, out=tmp_path / "out")
    [line] = _lines(tmp_path / "out")
    assert (line["date"], [turn.get("date") for turn in _users(line)]) == ("2023-11-14", [None, "2023-11-15"])


@pytest.mark.row("D6")
async def test_the_least_confident_come_first_and_guesses_are_no_labels(
    kept: InMemoryMessageStore, tmp_path: Path
) -> None:
    await export_candidates(kept, TALKS, flows=FLOWS, out=tmp_path)
    lines = _lines(tmp_path)
    assert [line["id"] for line in lines] == ["+44 20 7946 0958", "sure"]
    assert [turn[GUESS]["confidence"] for turn in _users(lines[0])] == [0.8, 0.95, 0.4, 0.3, 0.6]
    assert _users(lines[0])[4]["labels"]["commands"] == []
    await export_candidates(kept, TALKS, flows=FLOWS, out=tmp_path, most=1, replace=True)
    assert [line["id"] for line in _lines(tmp_path)] == [lines[0]["id"]]
    with pytest.raises(DatasetError, match="no readable row"):
        import_dataset("candidates", tmp_path, out=tmp_path / "made", flows=FLOWS)


@pytest.mark.row("D6", "G4")
async def test_personal_data_is_replaced_everywhere_and_alike(
    kept: InMemoryMessageStore, tmp_path: Path
) -> None:
    made = await export_candidates(kept, TALKS, flows=FLOWS, out=tmp_path, redactor=Redactor(["fault"]))
    text = (tmp_path / "candidates.jsonl").read_text("utf-8")
    for personal in ("ada.king", "web.de", "7946 0958", "falling off"):
        assert personal not in text
    assert "person1@example.com" in text
    assert made.replaced is not None
    assert (made.replaced["EMAIL_ADDRESS"], made.replaced["PHONE_NUMBER"]) == (1, 1)
    assert sorted(line["id"] for line in _lines(tmp_path)) == ["c00001", "c00002"]
    assert "book_repair" in text


@pytest.mark.row("D6", "G4")
def test_what_takes_the_place_of_something_tells_nothing_of_it() -> None:
    """Numbers are counted, not worked out of those that they replace; values may be numbers, lists and of any case."""
    redactor = Redactor(["guests", "code"])
    line = {
        "text": "Ring 020 7946 0958 or +44 20 7946 0000 for ada lovelace and BOB, code 4711",
        "labels": {
            "commands": [
                {"type": "set_slot", "name": "guests", "value": ["Ada Lovelace", "Bob"]},
                {"type": "set_slot", "name": "code", "value": 4711},
                {"type": "set_slot", "name": "people", "value": 4711},
            ],
            "sentiment": 0.5,
        },
        "before": {"flow": "Bob", "paused": [{"flow": "Bob", "slots": {"guests": "Bob"}}]},
    }
    made = redactor(line)
    assert (
        made["text"] == "Ring 020 7555 0001 or +44 20 7555 0002 for [GUESTS_1] and [GUESTS_2], code [CODE_1]"
    )
    assert [each["value"] for each in made["labels"]["commands"]] == [
        ["[GUESTS_1]", "[GUESTS_2]"],
        "[CODE_1]",
        4711,
    ]
    assert made["before"] == {"flow": "Bob", "paused": [{"flow": "Bob", "slots": {"guests": "[GUESTS_2]"}}]}
    assert redactor({"text": "020 7946 0000"}) == {"text": "020 7555 0002"}


@pytest.mark.row("D6", "G4")
async def test_a_slot_that_no_flow_has_is_refused(kept: InMemoryMessageStore, tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="No flow has a slot 'nmae'"):
        await export_candidates(kept, TALKS, flows=FLOWS, out=tmp_path, redactor=Redactor(["nmae"]))


@pytest.mark.row("D6")
async def test_a_turn_of_another_program_gets_what_its_trace_says(tmp_path: Path) -> None:
    store = InMemoryMessageStore()
    said = {"conversation_id": "c", "user_id": "u", "timestamp": 1}
    for name, role, text in (
        ("m1", "user", "a bike"),
        ("m2", "assistant", "Which size?"),
        ("m3", "user", "no!!"),
    ):
        await store.store_message(Message(id=name, role=role, original_content=text, **said))
    await store.flag_message("m3")
    await store.store_turn_trace(
        TurnTrace(id="t", message_id="m1", conversation_id="c", detected_intent="rent_bike")
    )
    made = await export_candidates(store, ["c", "unknown"], flows=FLOWS, out=tmp_path)
    (line,) = _lines(tmp_path)
    (turn,) = _users(line)
    assert (turn["labels"]["intent"], turn[GUESS]["confidence"]) == ("rent_bike", 0.0)
    assert "commands" not in turn["labels"]
    assert "before" not in turn
    assert made.left_out == ("c/m3: flagged", "unknown: no message of a user")


@pytest.mark.row("D6", "D7")
async def test_nothing_is_written_over_labels_and_an_export_of_nothing_is_told(
    kept: InMemoryMessageStore, tmp_path: Path
) -> None:
    await export_candidates(kept, TALKS, flows=FLOWS, out=tmp_path)
    before = (tmp_path / "candidates.jsonl").read_bytes()
    with pytest.raises(DatasetError, match="already has candidates"):
        await export_candidates(kept, TALKS, flows=FLOWS, out=tmp_path)
    with pytest.raises(DatasetError, match="No conversation to export has a message of a user"):
        await export_candidates(kept, ["nobody"], flows=FLOWS, out=tmp_path, replace=True)
    assert (tmp_path / "candidates.jsonl").read_bytes() == before
