"""The head of acts: what messages do is told without a language model, for flows that nothing was fitted on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy import artifacts
from jazzmine_dspy.lm.engines import scripted_lm
from jazzmine_dspy.memory.procedural.embedder import FastembedEmbedder
from jazzmine_dspy.models import FlowRegistry, Turn
from jazzmine_dspy.models.base import sha256
from jazzmine_dspy.program.heads.acts import bank, model
from jazzmine_dspy.program.heads.acts.fit import ActsHead
from jazzmine_dspy.program.heads.acts.model import ACTS, Acts
from jazzmine_dspy.program.heads.storing import heads_from_bytes, heads_to_bytes
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.turn import TurnProgram

ROOT = Path(__file__).resolve().parents[2]

FLOWS: list[dict[str, Any]] = [
    {
        "name": "book_boat", "description": "Rent a boat.", "keywords": ["boat", "rent"],
        "condition": "The customer wants a boat for some hours.", "confirm": "A {kind} for {people}. Is that right?",
        "examples": ["I'd like to rent a boat", "do you have a canoe for us", "two kayaks please"],
        "slots": [
            {"name": "kind", "type": "choice", "options": ["canoe", "kayak", "sailing boat"],
             "description": "Kind of boat", "ask": "Canoe, kayak or sailing boat?"},
            {"name": "people", "type": "number", "description": "How many people", "ask": "For how many people?"},
            {"name": "email", "type": "email", "required": False, "description": "Email address",
             "ask": "Which email address?"},
            {"name": "life_vests", "type": "boolean", "required": False, "ask": "Do you need life vests?"},
        ],
    },
    {
        "name": "report_damage", "description": "Report damage on a rented boat.", "keywords": ["damage", "broken"],
        "condition": "Something on the rented boat is broken.",
        "examples": ["the paddle broke", "there is a hole in our boat", "the rudder came off"],
        "slots": [
            {"name": "boat_number", "type": "text", "pattern": r"\d{4}", "description": "Number of the boat",
             "ask": "Which boat is it?"},
            {"name": "place", "type": "text", "description": "Where it happened", "ask": "Where did it happen?"},
        ],
    },
    {
        "name": "opening_times", "description": "Tell when boats can be rented.", "keywords": ["open"],
        "examples": ["when are you open", "until when can I bring the boat back"],
    },
]  # fmt: skip
REGISTRY = FlowRegistry(FLOWS)


@pytest.fixture(scope="module")
def program() -> TurnProgram:
    """A program that was never compiled: flows, and the bundled embedding model."""
    made = TurnProgram(REGISTRY, policy=Policy(deciders=(("local", None),)))
    artifacts.bind_recall(made, FastembedEmbedder())
    return made


def asked(text: str, question: str, **state: Any) -> Turn:
    """A message that follows a question."""
    return Turn(text=text, history=[{"role": "assistant", "text": question}], **state)  # type: ignore[arg-type]


def asked_slot(text: str, slot: str, flow: str = "book_boat", **state: Any) -> Turn:
    """A message that follows the question for a slot."""
    found = REGISTRY[flow].slot(slot)
    assert found is not None
    return asked(text, found.ask, flow=flow, awaiting=slot, status="collecting_slots", **state)


def confirming(text: str, **slots: Any) -> Turn:
    """A message that follows an open yes or no."""
    said = "A canoe for 3. Is that right?"
    held = {"kind": "canoe", "people": 3, **slots}
    return asked(
        text, said, flow="book_boat", status="awaiting_confirmation", slots=held, confirming={"action": said}
    )


def told(program: TurnProgram, turn: Turn) -> list[tuple[Any, ...]]:
    """What a turn is decided to be, for comparing."""
    return [
        (c.type, *(v for name, v in c.model_dump(exclude={"type", "topic", "flow"}).items()))
        if c.type not in ("start_flow", "cancel_flow", "resume_flow")
        else (c.type, c.flow)
        for c in program.decide(turn).commands
    ]


AT_PLACE: dict[str, list[tuple[Any, ...]]] = {
    "Genoa": [("set_slot", "place", "Genoa")],
    "St. Louis": [("set_slot", "place", "St. Louis")],
    "November 3": [("set_slot", "place", "November 3")],
    "near the old bridge, please": [("set_slot", "place", "near the old bridge")],
    "Cancel": [("cancel_flow", None)],
    "what was the question": [("repeat",)],
    "let us drop the whole report, it is fine": [("cancel_flow", None)],
    "No": [("skip_slot", "place")],
}


@pytest.mark.row("U5", "U14")
@pytest.mark.parametrize("text", AT_PLACE)
def test_an_awaited_text_takes_the_message_unless_it_is_an_act(program: TurnProgram, text: str) -> None:
    assert told(program, asked_slot(text, "place", "report_damage")) == AT_PLACE[text]


@pytest.mark.row("U5")
@pytest.mark.parametrize("text", ["it broke in two", "the red one", "4 of us were in it"])
def test_what_is_no_number_of_a_boat_is_not_taken_for_one(program: TurnProgram, text: str) -> None:
    assert not [c for c in told(program, asked_slot(text, "boat_number", "report_damage")) if "slot" in c[0]]


@pytest.mark.row("C6")
@pytest.mark.parametrize("text", ["5", "it was at the pier", "a kayak", "4711", "Ben", "yes", "ann@post.net"])
@pytest.mark.parametrize("slot", ["place", "boat_number"])
def test_a_bare_answer_starts_no_flow(program: TurnProgram, text: str, slot: str) -> None:
    assert program.decide(asked_slot(text, slot, "report_damage")).selection.flows == []


AT_CONFIRMATION: dict[str, list[tuple[Any, ...]]] = {
    "perfect, book it": [("affirm",)],
    "hmm rather not": [("deny", None)],
    "a kayak would be better": [("deny", "kind"), ("correct_slot", "kind", "kayak")],
    "yes and send it to ann@post.net": [("set_slot", "email", "ann@post.net")],
    "how long does that take": [("ask",)],
    "no, forget the whole thing": [("cancel_flow", None)],
}


@pytest.mark.row("C6", "U6")
@pytest.mark.parametrize("text", AT_CONFIRMATION)
def test_an_open_confirmation_is_answered_first(program: TurnProgram, text: str) -> None:
    assert told(program, confirming(text)) == AT_CONFIRMATION[text]


@pytest.mark.row("C6")
def test_a_registry_and_nothing_else_will_do(program: TurnProgram) -> None:
    assert told(program, Turn(text="the paddle snapped off")) == [("start_flow", "report_damage")]
    assert told(program, asked_slot("not necessary", "life_vests")) == [("set_slot", "life_vests", False)]
    assert told(program, asked_slot("that would be good", "life_vests")) == [("set_slot", "life_vests", True)]
    offered = "That is done. Shall we go back to your boat?"
    assert told(program, asked("yes please", offered, paused=("book_boat",))) == [
        ("resume_flow", "book_boat")
    ]
    assert told(program, asked("no need any more", offered, paused=("book_boat",))) == [
        ("cancel_flow", "book_boat")
    ]
    assert told(program, asked_slot("I don't have that with me", "boat_number", "report_damage")) == [
        ("skip_slot", "boat_number")
    ]
    record = program.decide(Turn(text="the paddle snapped off")).stages["understand"]
    assert (record.source, record.degraded) == ("local", False)


@pytest.mark.row("C4")
@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("what is 17 times 23", "out_of_scope"),
        ("sing me a song about trains", "out_of_scope"),
        ("thanks, you were great", "chitchat"),
        ("hello there", "chitchat"),
    ],
)
def test_what_no_flow_is_for_is_told_by_a_fitted_score(program: TurnProgram, text: str, kind: str) -> None:
    decision = program.decide(text=text)
    assert ([c.type for c in decision.commands], decision.selection.flows) == ([kind], [])


@pytest.mark.row("C1")
def test_what_the_shipped_head_is_not_sure_of_goes_to_the_language_model(program: TurnProgram) -> None:
    turn = asked_slot("it was at the pier", "place", "report_damage")
    asking = TurnProgram(REGISTRY).bind(
        embedder=program.bindings.embedder,
        recall=program.bindings.recall,
        lm=scripted_lm(lambda request: "no answer"),
    )
    decision = asking.decide(turn)
    record = decision.stages["understand"]
    # The model's answer is no good, so what the head said stands.
    assert (record.source, record.degraded, "lm" in str(record.cause)) == ("local", True, True)
    assert (decision.slot_name, decision.slot_value) == ("place", "at the pier")


def test_without_its_embedding_model_nobody_misses_it(program: TurnProgram) -> None:
    order = Policy(deciders=(("local", None),))
    record = TurnProgram(REGISTRY, policy=order).decide(text="5 of us").stages["understand"]
    assert (record.source, record.degraded) == ("fallback", False)


def test_the_shipped_weights_are_of_the_bank(program: TurnProgram) -> None:
    head = model.shipped_head(program.bindings.embedder)
    assert head is not None
    # Otherwise: python tools/acts_weights.py
    _, metadata = model.read_shipped("jazzmine_dspy.program.heads.acts")
    assert metadata["bank"] == sha256(Path(bank.__file__).with_name(bank.FILE).read_text("utf-8"))
    files = sorted((ROOT / "eval" / "suites" / "practice").glob("*.yaml"))
    assert metadata["practice"] == sha256([[file.name, sha256(file.read_bytes())] for file in files])
    assert head.fingerprint == model.SHIPPED


def test_the_bank_says_where_each_phrase_is_said() -> None:
    phrases = bank.phrases()
    assert len({each.text for each in phrases}) >= 600
    acts = {act for each in phrases for act in each.acts}
    assert set(ACTS) <= acts | {"clarify"}
    assert acts <= {*ACTS, "clarify"}
    for act in ACTS:
        assert sum(act in each.acts for each in phrases) >= 15, act
    assert bank.shown(phrases[:50], 2) == bank.shown(phrases[:50], 2)


@pytest.mark.row("C2")
def test_it_learns_from_labels_and_is_stored_openly(program: TurnProgram) -> None:
    from jazzmine_dspy.models.commands import Handoff, command
    from jazzmine_dspy.program.local.understanding import head_input
    from jazzmine_dspy.program.ports import HeadExample

    embedder = program.bindings.embedder
    assert embedder is not None
    before = model.shipped_head(embedder)
    assert before is not None

    def given(text: str) -> Any:
        state = program.read(asked_slot(text, "people"))
        return head_input(before, state, state.choosable, rewritten=False)

    # In this shop "skipper" is how people ask for a person.
    words = ["skipper", "skipper please", "the skipper now", "get the skipper", "skipper!", "a skipper"]
    examples = [
        HeadExample(given(text), [Handoff()], f"c{number}") for number, text in enumerate([*words, *words])
    ]
    plain = [HeadExample(given("3"), [command({"type": "set_slot", "name": "people", "value": 3})], "d")]
    trained = ActsHead.train([*examples, *plain], 0, embedder=embedder)
    unseen = given("where is the skipper")
    assert before.probabilities(unseen)["handoff"] < 0.5 < trained.probabilities(unseen)["handoff"]
    assert trained.predict(unseen).value == [Handoff()]
    again = heads_from_bytes(heads_to_bytes({"understand": trained}))["understand"]
    assert again.fingerprint == trained.fingerprint
    assert again.predict(unseen) == trained.predict(unseen)


@pytest.mark.row("E7")
def test_where_it_cannot_tell_what_starts_the_selection_says_so(
    program: TurnProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recall answers in its place, which is not what the program would have said."""

    def broken(*_: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(Acts, "read", broken)
    decision = program.decide(text="I'd like to rent a boat")
    record = decision.stages["select"]
    assert (record.source, record.degraded) == ("fallback", True)
    assert record.cause == "local: ZeroDivisionError"
    assert decision.selection.flows == ["book_boat"]
