"""The trained reader: what it reads of a turn, and what the local decider makes of a second reading."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy import FlowRegistry, Turn, TurnProgram, load
from jazzmine_dspy.artifacts import bind_recall
from jazzmine_dspy.memory.procedural import minilm
from jazzmine_dspy.memory.procedural.index import FlowIndex
from jazzmine_dspy.models import TurnDecision
from jazzmine_dspy.models.commands import COMMANDS, CancelFlow, SetSlot, StartFlow
from jazzmine_dspy.models.errors import EmbeddingError, MemoryUnavailableError
from jazzmine_dspy.models.slot_types.choice import Listing
from jazzmine_dspy.models.turn import Confirming
from jazzmine_dspy.program import state as states
from jazzmine_dspy.program.deadline import Deadline
from jazzmine_dspy.program.decider import Decided, Decider
from jazzmine_dspy.program.local import decider as deciders
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.reader import reading as reader
from jazzmine_dspy.program.reader.network import (
    HASHES,
    Network,
    card_flags,
    cards_of,
    overlaps,
    shipped_network,
)
from jazzmine_dspy.program.reader.reading import READER, read_texts, second_reading, start_shares
from jazzmine_dspy.program.state import TurnState

CAMPSITE = Path(__file__).resolve().parents[2] / "eval" / "suites" / "practice" / "campsite.yaml"
CLINIC = Path(__file__).resolve().parents[2] / "examples" / "clinic" / "flows.yaml"
MARINA = Path(__file__).resolve().parents[2] / "eval" / "suites" / "marina" / "flows.yaml"
REPORTED = json.loads((MARINA.parents[1] / "reports" / "registries.json").read_text("utf-8"))
FLOWS: list[dict[str, Any]] = [
    {
        "name": "book_lesson", "description": "Book a surfing lesson.", "condition": "The user wants to learn to surf.",
        "examples": ["I'd like a surf lesson", "can someone teach me to surf"], "confirm": "Book the {level} lesson?",
        "slots": [
            {"name": "level", "type": "choice", "options": ["beginner", "advanced"], "description": "How well"},
            {"name": "people", "type": "number", "description": "How many people take part"},
            {"name": "wetsuit", "type": "boolean", "required": False, "description": "Whether a wetsuit is needed"},
        ],
    },
    {
        "name": "rent_board", "description": "Rent a surfboard.", "condition": "The user wants a board for some time.",
        "examples": ["rent a board", "do you have boards for a day"],
        "slots": [{"name": "hours", "type": "number", "description": "For how many hours"}],
    },
    {
        "name": "report_damage", "description": "Report a damaged board.", "condition": "A rented board broke.",
        "examples": ["the board is broken", "the fin came off"],
        "slots": [{"name": "what", "type": "text", "description": "What is broken"}],
    },
    {"name": "weather", "description": "Tell how high the waves are.", "examples": ["how are the waves"]},
]  # fmt: skip
TEXTS = (
    "hi there, I would like to book a surf lesson for 2 people",
    "I'd rather have a board for three hours",
    "the nose of my board has a crack",
    "how high are the waves this morning",
    "no thanks, forget it",
    "what do you think of sharks?",
)
ASKED = Turn(text="all of us are beginners", status="collecting_slots", flow="book_lesson", awaiting="level")


class _Alone(Decider):
    """Decides by the reader alone."""

    name = READER

    def decide(self, state: TurnState, so_far: Decided | None, deadline: Deadline) -> Decided:
        del so_far, deadline
        answer = second_reading(state)
        assert answer is not None
        return answer


def program(flows: list[dict[str, Any]] | None = None, name: str = READER) -> TurnProgram:
    made = TurnProgram(FlowRegistry(flows or FLOWS))
    bind_recall(made, "minilm")
    made.bind(deciders={READER: _Alone()})
    made.policy = Policy(deciders=((name, None),))
    return made


def shape(decision: TurnDecision) -> tuple[Any, ...]:
    """Commands and slots of a decision, whatever the order of its slots."""
    return tuple(sorted(COMMANDS.dump_json(command) for command in decision.commands))


@pytest.mark.row("C1")
def test_the_reader_decides_behind_the_seam_of_deciders() -> None:
    made = program()
    first = made.decide(Turn(text=TEXTS[0]))
    assert first.commands[0] == StartFlow(flow="book_lesson")
    assert SetSlot(name="people", value=2) in first.commands
    assert first.stages["understand"].source == READER
    assert 0.0 < first.stages["understand"].confidence <= 1.0
    assert made.decide(Turn(text=TEXTS[1])).commands[0] == StartFlow(flow="rent_board")
    assert made.decide(ASKED).commands == [SetSlot(name="level", value="beginner")]


@pytest.mark.row("C1")
def test_no_decision_changes_with_the_order_of_flows_slots_and_options() -> None:
    turned = [
        {**flow, "slots": [
            {**slot, **({"options": slot["options"][::-1]} if "options" in slot else {})}
            for slot in flow.get("slots", [])[::-1]
        ]}
        for flow in FLOWS[::-1]
    ]  # fmt: skip
    one, other = program(), program(turned)
    for turn in [ASKED, *(Turn(text=text) for text in TEXTS)]:
        assert shape(one.decide(turn)) == shape(other.decide(turn)), turn.text


def test_cards_name_flows_slots_and_options_with_their_state() -> None:
    cards = cards_of(FlowRegistry(FLOWS)["book_lesson"])
    assert [card.kind for card in cards] == ["flow", "slot", "option", "option", "slot", "slot"]
    assert cards[0].text == "book lesson: Book a surfing lesson. The user wants to learn to surf."
    assert [card.required for card in cards] == [False, True, False, False, True, False]
    flags = card_flags(cards, ASKED)
    assert [row[0] for row in flags] == [1.0] * 6, "all are of the running flow"
    assert [row[4] for row in flags] == [0.0, 1.0, 1.0, 1.0, 0.0, 0.0], "the awaited slot and its options"
    assert overlaps(cards, "a lesson for advanced people")[:4] == [0.5, 0.0, 0.0, 1.0]


@pytest.mark.row("C6")
@pytest.mark.parametrize("fault", ["missing", "changed"])
def test_weights_that_are_not_those_of_the_package_are_refused(tmp_path: Path, fault: str) -> None:
    source = Path(reader.__file__).parent
    for name in HASHES:
        shutil.copy(source / name, tmp_path)
    if fault == "missing":
        (tmp_path / "fusion.onnx").unlink()
    else:
        with (tmp_path / "fusion.onnx").open("r+b") as file:
            file.write(b"x")
    with pytest.raises(EmbeddingError, match=r"fusion\.onnx") as raised:
        Network(tmp_path, minilm.tokenizer_file())
    assert "Install the package again" in str(raised.value)


@pytest.mark.row("C6")
def test_without_the_reader_the_rules_decide_and_the_turn_is_degraded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, turn = program(name="local"), Turn(text=TEXTS[0])
    whole = made.decide(turn)

    def fails(*_: object) -> Network:
        raise EmbeddingError(
            "A file of the reader is missing", where="fusion.onnx", remedy="Install it again."
        )

    monkeypatch.setattr(states, "shipped_network", fails)
    for fitted in (True, False):
        if not fitted:
            monkeypatch.setattr(deciders, "confidence_model", lambda _: None)
        alone = made.decide(turn)
        assert alone.commands == whole.commands
        assert alone.degraded
        assert "reader: " in str(alone.stages["understand"].cause)
        assert alone.stages["understand"].agreement is None


@pytest.mark.row("C1")
def test_the_reader_fills_a_slot_that_rules_leave_empty(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = load("base", flows=CAMPSITE, lm=None)
    turn = Turn(text="could we borrow two kayaks off you from the 13th", date="2026-05-01")  # type: ignore[arg-type]
    gear = SetSlot(name="gear", value=("two kayaks",))
    decision = made.decide(turn)
    assert decision.commands[0] == StartFlow(flow="rent_gear")
    assert gear in decision.commands
    with monkeypatch.context() as broken:
        broken.setattr(Listing, "normalize", lambda *_: 1 / 0)
        assert made.decide(turn).commands == [each for each in decision.commands if each != gear]
    monkeypatch.setattr(TurnState, "read", lambda _: None)
    alone = made.decide(turn)
    assert gear not in alone.commands
    assert not alone.degraded


@pytest.mark.row("C1", "U19")
def test_a_list_with_another_slot_s_value_is_dropped() -> None:
    made = load("base", flows=MARINA, lm=None)
    turn = Turn(text="4 bags of coal to B12 friday", date="2026-05-01")  # type: ignore[arg-type]
    values = {each.name: each.value for each in made.decide(turn).commands if isinstance(each, SetSlot)}
    assert values == {"berth_code": "B12", "deliver_on": "2026-05-08", "goods": ("4 bags of coal",)}
    made = load("base", flows=FlowRegistry(REPORTED["lunch"]["flows"]), lm=None)
    turn = Turn(text="and another order, the 29th this time, for 6", date="2026-10-14")  # type: ignore[arg-type]
    values = {each.name: each.value for each in made.decide(turn).commands if isinstance(each, SetSlot)}
    assert values == {"lunch_day": "2026-10-29", "people": 6}
    history = [{"role": "user", "text": "hummus and falafel for 12 tomorrow"}]
    again = Turn(text="same again but Friday", date="2026-10-14", history=history)  # type: ignore[arg-type]
    assert not [
        each for each in made.decide(again).commands if isinstance(each, SetSlot) and each.name == "dishes"
    ]


@pytest.mark.row("C1")
def test_a_mention_of_a_task_is_no_request_in_the_same_words() -> None:
    made = load("base", flows=CAMPSITE, lm=None)
    pairs = (
        (
            "we rented the lantern off you last week, thanks, it was lovely",
            "can we rent the lantern off you next week",
        ),
        (
            "got in late last night, the gate was open, all good",
            "we'll get in late tonight, is the gate open",
        ),
    )
    for mention, request in pairs:
        logits = [made.read(Turn(text=text)).read() for text in (mention, request)]
        nothing = [start_shares(each, None)[1] for each in logits if each is not None]
        assert nothing[0] > 0.5 > nothing[1], mention
    assert [each.type for each in made.decide(Turn(text=pairs[0][0])).commands] == ["chitchat"]
    assert made.decide(Turn(text=pairs[0][1])).commands[0] == StartFlow(flow="rent_gear")


@pytest.mark.row("C1", "U6")
def test_an_awaited_text_is_what_the_reader_reads_where_rules_take_too_much() -> None:
    made = load("base", flows=CLINIC, lm=None)
    asked = [{"role": "assistant", "text": "What is your animal's name?"}]
    turn = Turn(text="told u already, biscuit. and u didnt say the price", flow="book_appointment", awaiting="pet",
                status="collecting_slots", history=asked)  # type: ignore[arg-type]  # fmt: skip
    assert made.decide(turn).commands == [SetSlot(name="pet", value="biscuit")]
    whole = turn.model_copy(update={"text": "Skip Halloran"})
    assert made.decide(whole).commands == [SetSlot(name="pet", value="Skip Halloran")]


@pytest.mark.row("E8")
def test_a_message_that_only_goes_on_starts_the_finished_task_again() -> None:
    made = program(name="local")
    said = [
        {"role": "user", "text": "rent a board for 3 hours"},
        {"role": "assistant", "text": "Done: rent board."},
    ]
    turn = Turn(text="and another for 2 hours", history=said)  # type: ignore[arg-type]
    assert made.decide(turn).commands == [StartFlow(flow="rent_board"), SetSlot(name="hours", value=2)]
    # The flow that ended is known although no message before names it.
    known = Turn(text=turn.text, history=[{"role": "user", "text": "yes please"}], finished="rent_board")  # type: ignore[list-item]
    assert made.decide(known).commands == [StartFlow(flow="rent_board"), SetSlot(name="hours", value=2)]
    finished, running = (
        made.read(each).read() for each in (turn, turn.model_copy(update={"flow": "weather"}))
    )
    assert finished is not None
    assert running is not None
    again, less = (start_shares(each, None)[0]["rent_board"] for each in (finished, running))
    assert again > max(0.9, less)


@pytest.mark.row("C6")
def test_a_failed_recall_of_previous_messages_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    made = program(name="local")
    recall = FlowIndex.recall

    def fails(index: FlowIndex, query: str, **settings: Any) -> Any:
        if query == "rent a board for 3 hours":
            raise MemoryUnavailableError("The index is away")
        return recall(index, query, **settings)

    monkeypatch.setattr(FlowIndex, "recall", fails)
    history = [{"role": "user", "text": "rent a board for 3 hours"}]
    decision = made.decide(Turn(text="I would like to book a surf lesson", history=history))  # type: ignore[arg-type]
    assert decision.commands[0] == StartFlow(flow="book_lesson")
    assert decision.degraded
    assert "recall of previous messages: " in str(decision.stages["understand"].cause)


@pytest.mark.row("C1", "U6", "U19")
def test_a_text_is_read_only_where_the_task_goes_on() -> None:
    made = load("base", flows=CLINIC, lm=None)
    asked = [{"role": "assistant", "text": "What is your animal's name?"}]
    turn = Turn(text="its Biscuit", flow="book_appointment", awaiting="pet", status="collecting_slots",
                history=asked)  # type: ignore[arg-type]  # fmt: skip
    assert read_texts(made.read(turn), []) == [SetSlot(name="pet", value="Biscuit")]
    confirming = turn.model_copy(update={"confirming": Confirming(action="Book it?")})
    assert read_texts(made.read(confirming), []) == []
    assert read_texts(made.read(turn), [CancelFlow()]) == [CancelFlow()]
    assert read_texts(made.read(turn).with_selected(["cancel_appointment"]), []) == []


@pytest.mark.row("C3")
def test_a_second_reading_with_the_same_commands_makes_sure() -> None:
    """The sign of the agreement tells whether both read the same; its amount how certain the reader is."""
    made = program(name="local")
    agreements = [made.decide(Turn(text=text)).stages["understand"].agreement for text in TEXTS]
    assert all(each is not None and 0.0 < abs(each) <= 1.0 for each in agreements)
    agreed = made.decide(Turn(text="I'd like a surf lesson")).stages["understand"]
    assert agreed.agreement is not None
    assert agreed.agreement > 0.5
    assert "agreement" in agreed.model_dump(mode="json")
    assert "agreement" not in made.decide(Turn(text="start over")).stages["understand"].model_dump(
        mode="json"
    )


def test_other_languages_and_embedding_models_are_read_without_it() -> None:
    made = program(name="local")
    german = made.decide(Turn(text="ich möchte surfen lernen", locale="de-DE"))
    assert german.stages["understand"].agreement is None
    assert not german.degraded
    state = TurnState(turn=Turn(text="surf"), registry=FlowRegistry(FLOWS))
    assert second_reading(state) is None, "nothing is bound"
    logits = made.read(Turn(text="surf")).read()
    assert logits is not None
    assert logits.message.shape == (384,)
    assert float(logits.message @ logits.message) == pytest.approx(1.0, abs=1e-5)


def test_long_messages_and_many_cards_are_read() -> None:
    many: list[dict[str, Any]] = [
        {"name": f"flow_{n}", "description": "Rent a surfboard.", "slots": [
            {"name": f"slot_{m}", "type": "choice", "options": ["a", "b", "c"]} for m in range(3)
        ]}
        for n in range(60)
    ]  # fmt: skip
    made = program(many)
    decision = made.decide(Turn(text="rent a surfboard " * 470))
    assert decision.stages["understand"].source == READER
    assert not decision.degraded
    logits = shipped_network(minilm.tokenizer_file(), 0).read(
        Turn(text="..."), made.registry, list(made.registry)
    )
    assert len(logits.cards) == 60 * (1 + 3 * 4)
    assert logits.spans.shape[1] == len(logits.cards)
