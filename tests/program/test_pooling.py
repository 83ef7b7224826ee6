"""What labels taught and what the flows' texts say, in one estimate."""

from __future__ import annotations

import numpy as np
import pytest

from jazzmine_dspy import FlowRegistry, Turn, TurnProgram, load
from jazzmine_dspy.artifacts import bind_recall
from jazzmine_dspy.program.heads._blend import OpenSet
from jazzmine_dspy.program.heads.acts.model import ACTS, shipped_head
from jazzmine_dspy.program.heads.features import STATE_SIZE
from jazzmine_dspy.program.heads.selection import SelectionHead
from jazzmine_dspy.program.local.starting import judge_by_head, pooled
from jazzmine_dspy.program.local.understanding import head_input
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.ports import HeadInput, HeadState, SelectionOutput
from jazzmine_dspy.program.reader.reading import acts_odds, pool_weights, pooled_acts
from jazzmine_dspy.program.starts import Starts
from jazzmine_dspy.program.state import TurnState

UNSURE = SelectionOutput((), 0.6, (("none", 0.6), ("track", 0.3), ("cancel", 0.1)))
CANCEL = SelectionOutput(("cancel",), 0.5, (("cancel", 0.5), ("track", 0.4), ("none", 0.1)))
NEW = UNSURE._replace(ranking=(*UNSURE.ranking, ("pay", 0.0)))
LABELS = ("none", "track", "cancel")
TRACK = Starts((("track", 0.9), ("cancel", 0.05)), 0.95)


@pytest.mark.row("F9")
@pytest.mark.parametrize(
    ("output", "estimate", "weight", "learnt", "flows"),
    [
        (UNSURE, TRACK, 0.7, LABELS, ("track",)),
        (UNSURE, TRACK, 0.7, None, ("track",)),
        (UNSURE, TRACK, 1.0, LABELS, ()),
        (UNSURE, None, 0.7, LABELS, ()),
        # A head that has not learnt "none" knows by its open set alone that nothing is wanted.
        (UNSURE, TRACK, 0.7, LABELS[1:], ()),
        # Unlike all that was learnt.
        (UNSURE._replace(in_scope=0.001), TRACK, 0.9, LABELS, ()),
        (UNSURE._replace(ranking=UNSURE.ranking[::-1], in_scope=0.1), TRACK, 0.9, LABELS, ()),
        # Which of the learnt flows, the head says; whether any, both.
        (CANCEL, TRACK, 0.5, LABELS, ("cancel",)),
        (CANCEL, TRACK._replace(ranking=(), probability=0.0), 0.5, LABELS, ()),
        # Several wishes stay.
        (UNSURE._replace(flows=("track", "cancel")), TRACK, 0.7, LABELS, ("track", "cancel")),
        # A flow that was not learnt has the estimate alone.
        (NEW, Starts((("pay", 0.9),), 0.9), 0.7, LABELS, ("pay",)),
        (NEW._replace(in_scope=0.1), Starts((("pay", 0.9),), 0.9), 0.7, LABELS, ("pay",)),
    ],
)  # fmt: skip
def test_both_estimates_decide(
    output: SelectionOutput,
    estimate: Starts | None,
    weight: float,
    learnt: tuple[str, ...] | None,
    flows: tuple[str, ...],
) -> None:
    both = pooled(output, estimate, weight, learnt)
    assert both.flows == flows
    assert 0.0 <= both.confidence <= 1.0
    assert sum(share for _, share in both.ranking) <= 1.0 + 1e-9


@pytest.mark.row("C4", "F9")
def test_what_the_open_set_rejects_starts_nothing_that_was_learnt() -> None:
    """It is an example of the flow, but the head has learnt that such messages want nothing."""
    flows = [
        {"name": "track", "description": "Say where an order is.", "examples": ["where is my order"]},
        {"name": "pay_bill", "description": "Pay a bill."},
    ]
    program = load("base", flows=FlowRegistry(flows))
    program = program.with_policy(program.policy.model_copy(update={"head_weight": 0.8}))
    for open_set, expected in ((OpenSet(), ["track"]), (OpenSet("softmax", 1.0, 5.0, -5.0), [])):
        weights = np.zeros((2, 768 + STATE_SIZE))
        head = SelectionHead(["track", "none"], weights, [0.0, 0.1], open_set=open_set)
        selection = program.bind(heads={"select": head}).decide(text="where is my order").selection
        assert selection.flows == expected


@pytest.mark.row("F9", "U11")
@pytest.mark.parametrize(("weight", "flows"), [(0.0, ["track_order"]), (0.3, ["track_order"]), (1.0, [])])
def test_a_head_that_has_learnt_turns_in_the_middle_decides_them(weight: float, flows: list[str]) -> None:
    program = load("support", lm=None)
    program = program.with_policy(
        program.policy.model_copy(update={"busy_head_weight": weight, "head_weight": 1.0})
    )
    turn = Turn(
        text="hang on, where is my order 5519?", flow="return_item", status="collecting_slots", awaiting="item",
        history=[{"role": "assistant", "text": "What would you like to return?"}],  # type: ignore[list-item]
    )  # fmt: skip
    assert program.decide(turn).selection.flows == flows


@pytest.mark.row("F9", "O5")
@pytest.mark.parametrize(
    ("text", "flow"),
    [
        ("where is order 3348", "track_order"),
        ("return order 5512", "return_item"),
        ("cancel my order", "cancel_order"),
        ("change delivery address", "change_address"),
        ("forgot password", "reset_password"),
        ("tell me a joke", None),
    ],
)
def test_a_compiled_program_still_knows_plain_requests(text: str, flow: str | None) -> None:
    assert load("support", lm=None).decide(text=text).selection.flows == ([flow] if flow else [])


class _Head:
    """Thinks of a flow, though "none", which it has not learnt, is likelier."""

    labels: tuple[str, ...] = ("greet",)
    feature_size = 0
    fingerprint = "0" * 64

    def to_state(self) -> HeadState:
        return HeadState({}, {})

    def texts(self, message: str) -> tuple[str, ...]:
        return (message,)

    def predict(self, given: HeadInput) -> SelectionOutput:
        return SelectionOutput(("greet",), 0.4, (("none", 0.6), ("greet", 0.4)))


@pytest.mark.row("F9", "F10")
def test_a_part_of_a_message_starts_a_flow_and_never_none() -> None:
    program = load("base", flows=FlowRegistry([{"name": "greet", "description": "Say hello."}]))
    state = TurnState(Turn(text="hello"), program.registry, program.policy, program.bindings)
    assert judge_by_head(_Head(), ["greet"])(state) == ("greet", 0.4)


class _Sure(_Head):
    """Judges the message as a whole and its parts."""

    labels = ("none", "pay_bill", "send_money")

    def __init__(self, share: float) -> None:
        self.share = share

    def predict(self, given: HeadInput) -> SelectionOutput:
        flow = "send_money" if given.turn.text.startswith("send") else "pay_bill"
        share = self.share if " and " in given.turn.text else 0.9
        return SelectionOutput((flow,), share, ((flow, share), ("none", 1.0 - share)))


@pytest.mark.row("F10")
@pytest.mark.parametrize(("share", "flows"), [(0.9, ["pay_bill", "send_money"]), (0.99, ["pay_bill"])])
def test_a_message_that_surely_wants_one_flow_is_not_cut(share: float, flows: list[str]) -> None:
    both = [
        {"name": "pay_bill", "description": "Pay a bill.", "examples": ["pay my bill"]},
        {"name": "send_money", "description": "Send money.", "examples": ["send money"]},
    ]
    program = load("base", flows=FlowRegistry(both)).bind(heads={"select": _Sure(share)})
    assert program.decide(text="pay my bill and send some money").selection.flows == flows


@pytest.mark.row("F9", "F13")
@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("I forgot my password", "reset_password"),
        ("half of my order was missing from the box", "missing_parcel"),
    ],
)
def test_what_wants_a_hidden_flow_starts_no_other(text: str, hidden: str) -> None:
    program = load("support", lm=None)
    others = [{"name": name} for name in program.registry if name != hidden]
    assert (
        program.decide(Turn.model_validate({"text": text, "available_flows": others})).selection.flows == []
    )


WAITING = {
    "paused": ["order_contacts"],
    "offering": "order_contacts",
    "history": [{"role": "assistant", "text": "Shall we go back to this: contact lenses?"}],
}
EYES = FlowRegistry(
    [
        {
            "name": "order_contacts", "description": "Order contact lenses.", "examples": ["I need new lenses"],
            "slots": [{"name": "boxes", "type": "number", "description": "How many boxes"}],
        },
        {
            "name": "repair_glasses", "description": "Repair glasses.", "examples": ["my frame is bent"],
            "slots": [{"name": "damage", "type": "text", "description": "What is broken"}],
        },
    ]
)  # fmt: skip


@pytest.fixture(scope="module")
def eyes() -> TurnProgram:
    program = TurnProgram(EYES, policy=Policy().named("local"))
    bind_recall(program, "minilm")
    return program


@pytest.mark.row("U11", "U14")
@pytest.mark.parametrize(
    "text", ["later", "maybe later", "I don't know", "haha", "...", "don't cancel it", "no idea"]
)
def test_an_offer_that_is_put_off_or_talked_past_stays(eyes: TurnProgram, text: str) -> None:
    kinds = {each.type for each in eyes.decide(Turn.model_validate({"text": text, **WAITING})).commands}
    assert kinds.isdisjoint(("resume_flow", "cancel_flow"))


@pytest.mark.row("U5", "U9")
@pytest.mark.parametrize("text", ["why", "...", "lol", "haha ok"])
def test_an_awaited_slot_is_not_skipped_by_talk(eyes: TurnProgram, text: str) -> None:
    asked = {"flow": "order_contacts", "status": "collecting_slots", "awaiting": "boxes",
             "history": [{"role": "assistant", "text": "How many boxes?"}]}  # fmt: skip
    kinds = {each.type for each in eyes.decide(Turn.model_validate({"text": text, **asked})).commands}
    assert "skip_slot" not in kinds


@pytest.mark.row("F11")
def test_a_message_that_names_no_task_gets_a_question_and_one_of_another_trade_does_not(
    eyes: TurnProgram,
) -> None:
    vague = eyes.decide(Turn(text="something about my glasses or so")).selection
    assert (vague.flows, sorted(vague.clarify)) == ([], ["order_contacts", "repair_glasses"])
    assert eyes.decide(Turn(text="my cat is ill")).selection.clarify == []


def _seen(state: TurnState) -> HeadInput:
    head = shipped_head(state.bindings.embedder)
    assert head is not None
    return head_input(head, state, state.choosable, rewritten=False)


@pytest.mark.row("C1")
def test_the_head_and_the_reader_both_count_for_every_act(eyes: TurnProgram) -> None:
    assert {*ACTS} - {"start"} | {"idle", "busy"} == pool_weights().keys()
    assert all(max(weights[:2]) > 0.2 for weights in pool_weights().values())
    state = eyes.read(Turn.model_validate({"text": "nah leave them", **WAITING}))
    given, head, logits = _seen(state), shipped_head(eyes.bindings.embedder), state.read()
    assert head is not None
    assert logits is not None
    by_head, by_reader = head.probabilities(given), acts_odds(logits, state.turn)
    both = pooled_acts(state, given, by_head)
    assert both["cancel_flow"] > 0.5
    assert all(both[act] < 0.5 for act, odds in by_reader.items() if odds < 0 and by_head[act] < 0.5)
    # No flow runs, so the reader says nothing of a value.
    assert both["value"] == by_head["value"]
    # What labels add counts in full.
    taught = by_head | {"ask": 0.9}
    assert pooled_acts(state, given, taught)["ask"] > both["ask"]


@pytest.mark.row("C1")
def test_without_the_reader_the_head_counts_alone(eyes: TurnProgram) -> None:
    state = eyes.read(Turn(text="nein, lieber nicht", locale="de"))
    shares = dict.fromkeys(ACTS, 0.3)
    assert pooled_acts(state, _seen(state), shares) == shares
