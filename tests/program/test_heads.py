"""The selection head as it serves: its parts, its answers, its file."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save

from jazzmine_dspy.models.decision import Recalled
from jazzmine_dspy.models.errors import ArtifactError, InputError
from jazzmine_dspy.models.turn import ConversationStatus, Turn
from jazzmine_dspy.program.clauses import NONE, ClauseRule
from jazzmine_dspy.program.heads._blend import NEAR, Blend, OpenSet, Space, Trust
from jazzmine_dspy.program.heads.features import STATE_SIZE, Lexical, quantised, state_features
from jazzmine_dspy.program.heads.selection import NEW_FLOW, NOT_JUDGED, NOT_NEAR, SelectionHead
from jazzmine_dspy.program.heads.storing import heads_from_bytes, heads_to_bytes, states_to_bytes
from jazzmine_dspy.program.ports import Clause, HeadInput, HeadPort, HeadState

LABELS = ["track_order", "cancel_order", NONE]
FLOWS = ("cancel_order", "track_order")
BLEND = Blend(
    told=(0.4, 0.3, 0.2, -1.0),
    new=(0.0, 0.9, 0.5, 0.2, 0.0),
    none=(0.5, 0.0, -0.2, 0.0, 0.0),
    bare=(0.8, 0.5, 0.1),
)


def make(labels: Any = LABELS, size: int = 3, **changes: Any) -> SelectionHead:
    """A head that knows its first label by the first feature, and so on."""
    weights = np.zeros((len(labels), size + STATE_SIZE))
    weights[:, :size] = 3 * np.eye(len(labels), size)
    return SelectionHead(labels, weights, np.zeros(len(labels)), **({"blend": BLEND} | changes))


def stored(head: SelectionHead) -> Any:
    """The head as it comes back from an artefact."""
    return heads_from_bytes(heads_to_bytes({"select": head}))["select"]


def seen(text: str = "hello", features: Any = (0, 0, 0), **changes: Any) -> HeadInput:
    given_: dict[str, Any] = {"recalled": (), "flows": FLOWS} | changes
    turn = given_.pop("turn", None) or Turn(text=text)
    return HeadInput(turn, np.asarray(features, dtype=np.float32), **given_)


def lexical() -> Lexical:
    weights, scales = quantised(np.array([[4, 0, 0], [0, 4, 0], [0, 0, 4.0], [1, 0, 0]], np.float32))
    return Lexical(
        ["where", "stop", "thanks"], ["wh"], np.ones(4, np.float32), weights, scales, np.zeros(3, np.float32)
    )


@pytest.mark.row("C2")
def test_each_part_has_its_say() -> None:
    head = make(lexical=lexical(), blend=BLEND._replace(lexical=1.0))
    assert isinstance(head, HeadPort)
    assert head.predict(seen(features=(2, 0, 0))).flows == ("track_order",)
    assert head.predict(seen("stop", (0, 0, 0))).flows == ("cancel_order",)
    assert head.predict(seen("thanks a lot", (0, 0, 0))).flows == ()
    recalled = [Recalled("track_order", 0.5, 0.9, 0.8), Recalled("cancel_order", 0.1, 0.2, 0.0)]
    assert head.predict(seen("?", recalled=recalled)).flows == ("track_order",)
    both = head.predict(seen("stop", recalled=recalled))
    assert (
        dict(both.ranking)["track_order"]
        < dict(head.predict(seen("?", recalled=recalled)).ranking)["track_order"]
    )


@given(
    st.lists(st.floats(-50, 50, width=32), min_size=3, max_size=3),
    st.lists(st.tuples(st.sampled_from([*FLOWS, "new", "gone"]), *[st.floats(0, 1)] * 3), max_size=4),
)
def test_any_turn_gets_probabilities(
    features: list[float], found: list[tuple[str, float, float, float]]
) -> None:
    recalled = [Recalled(*one) for one in {one[0]: one for one in found}.values()]
    flows = (*FLOWS, "new")
    said = make().predict(seen(features=features, recalled=recalled, flows=flows))
    assert {name for name, _ in said.ranking} == {*flows, NONE}
    chances = [p for _, p in said.ranking]
    assert chances == sorted(chances, reverse=True)
    assert sum(chances) == pytest.approx(1)
    assert 0 <= said.confidence <= 1
    assert 0 <= said.in_scope <= 1
    assert set(said.flows) <= set(flows)


@pytest.mark.row("C2")
def test_a_flow_that_was_never_learnt_is_chosen_by_what_recall_tells_of_it() -> None:
    head = make()
    near = [Recalled("new", 0.5, 0.95, 0.9), Recalled("track_order", 0.1, 0.2, 0.0)]
    assert head.predict(seen(recalled=near, flows=(*FLOWS, "new"))).flows == ("new",)
    assert head.predict(seen(recalled=near, flows=FLOWS)).flows != ("new",)
    far = [near[0]._replace(similarity=0.1, support=0.0, score=0.05), near[1]]
    assert head.predict(seen(features=(3, 0, 0), recalled=far, flows=(*FLOWS, "new"))).flows == (
        "track_order",
    )


@pytest.mark.row("A9")
def test_a_flow_that_was_never_learnt_needs_a_text_that_is_near() -> None:
    """Among others never learnt one is always the nearest; how near it is tells whether it is meant."""
    head = make(open_set=OpenSet("softmax", threshold=0.0))  # which refuses all that was learnt
    for similarity, flows, reason in ((NEAR + 0.02, ("new",), NEW_FLOW), (NEAR - 0.02, (), NOT_NEAR)):
        found = [Recalled("new", 0.5, similarity, 0.4), Recalled("other", 0.4, 0.1, 0.1)]
        said = head.predict(seen(recalled=found, flows=("new", "other")))
        assert (said.flows, said.reason) == (flows, reason)
        assert 0.3 < said.in_scope < 0.7
        assert said.ranking[0][0] == ("new" if flows else NONE)
        assert {name for name, _ in said.ranking} == {"new", "other", NONE}
        assert dict(said.ranking)["other"] == 0.0
    near, far = [
        head.predict(seen(recalled=[Recalled("new", 0.5, similarity, 0.4)], flows=("new",)))
        for similarity in (0.9, 0.05)
    ]
    assert near.in_scope > 0.99 > 0.01 > far.in_scope
    assert min(near.confidence, far.confidence) > 0.9


@pytest.mark.row("A9")
def test_a_flow_that_is_not_near_leaves_those_that_were_learnt_as_they_are() -> None:
    head = make(open_set=OpenSet("neighbours", threshold=1.0, scale=1.0, shift=0.0))
    found = [Recalled("track_order", 0.1, 0.2, 0.0)]
    alone = head.predict(seen(features=(3, 0, 0), recalled=found))
    beside = [Recalled("new", 0.5, NEAR - 0.1, 0.9), *found]
    among = head.predict(seen(features=(3, 0, 0), recalled=beside, flows=(*FLOWS, "new")))
    assert (among.flows, among.reason) == (alone.flows, alone.reason) == (("track_order",), "likeliest flow")
    assert among.ranking == (*alone.ranking, ("new", 0.0))
    # None of the learnt ones was recalled: that, too, tells that they are not near.
    lone = head.predict(seen(features=(3, 0, 0), recalled=beside[:1], flows=(*FLOWS, "new")))
    assert (lone.flows, lone.reason) == ((), "nothing like it was learnt")


@pytest.mark.row("A9")
def test_a_head_whose_embedder_was_not_measured_leaves_new_flows_to_the_next_source() -> None:
    head = make(near=None)
    found = [Recalled("new", 0.5, 0.95, 0.9), Recalled("track_order", 0.1, 0.2, 0.0)]
    said = head.predict(seen(recalled=found, flows=(*FLOWS, "new")))
    assert (said.flows, said.left, said.reason) == ((), True, NOT_JUDGED)
    learnt = head.predict(seen(features=(3, 0, 0), recalled=found[1:], flows=(*FLOWS, "new")))
    assert (learnt.flows, learnt.left) == (("track_order",), False)


@pytest.mark.row("A9")
def test_several_wishes_are_not_looked_for_among_flows_that_were_never_learnt() -> None:
    head = make(LABELS[:2], rule=ClauseRule())
    text = "buy a card and then feed the cat"
    clauses = [Clause(part, np.zeros(3, np.float32)) for part in head.texts(text)[1:]]
    found = [Recalled("new", 0.5, 0.8, 0.9)]
    assert head.predict(seen(text, recalled=found, flows=("new",), clauses=clauses)).flows == ("new",)


def test_equal_flows_stand_in_the_registrys_order() -> None:
    for flows in (FLOWS, FLOWS[::-1]):
        assert [name for name, _ in make().predict(seen(flows=flows)).ranking if name != NONE] == list(flows)


def test_names_carry_nothing() -> None:
    other = make(["x9", "x1", NONE])
    recalled = [Recalled("cancel_order", 0.3, 0.6, 0.2), Recalled("track_order", 0.2, 0.5, 0.1)]
    renamed = [Recalled("x1", *recalled[0][1:]), Recalled("x9", *recalled[1][1:])]
    mine = make().predict(seen(features=(1, 0.8, 0.3), recalled=recalled))
    theirs = other.predict(seen(features=(1, 0.8, 0.3), recalled=renamed, flows=("x1", "x9")))
    assert [p for _, p in mine.ranking] == [p for _, p in theirs.ranking]
    assert mine.confidence == theirs.confidence


def test_nothing_to_choose_from() -> None:
    assert make().predict(seen(features=(3, 0, 0), flows=())).flows == ()
    # Not an answer: a source that knows nothing of these flows must not keep the next one from being asked.
    for labels in (["a", "b"], ["a", "b", NONE]):
        with pytest.raises(InputError, match="learnt none of these flows"):
            make(labels=labels).predict(seen(flows=("c", "d")))


def test_the_running_flow_counts() -> None:
    recalled = [Recalled(name, 0.3, 0.5, 0.1) for name in FLOWS]
    running = Turn(text="hello", flow="cancel_order", status="in_flow")
    assert (
        dict(make().predict(seen(recalled=recalled, turn=running)).ranking)["cancel_order"]
        < (dict(make().predict(seen(recalled=recalled)).ranking)["cancel_order"])
    )


@pytest.mark.row("C4")
def test_below_the_line_no_flow_is_wanted() -> None:
    """Whatever the softmax says: of two flows one is likely, although neither is near."""
    head = make(LABELS[:2], open_set=OpenSet("neighbours", threshold=4.0, scale=1.0, shift=-4.0))
    near = [Recalled("track_order", 0.5, 0.8, 0.5), Recalled("cancel_order", 0.1, 0.2)]
    far = [one._replace(similarity=one.similarity / 4, support=0.0) for one in near]
    assert head.predict(seen(features=(3, 0, 0), recalled=near)).flows == ("track_order",)
    refused = head.predict(seen(features=(3, 0, 0), recalled=far))
    assert (refused.flows, refused.reason) == ((), "nothing like it was learnt")
    assert refused.in_scope < 0.5 < head.predict(seen(features=(3, 0, 0), recalled=near)).in_scope
    assert refused.ranking[0][0] == NONE


@pytest.mark.row("C4")
def test_a_memory_that_cannot_tell_how_near_its_flows_are_refuses_nothing() -> None:
    head = make(open_set=OpenSet("neighbours", threshold=2.0, scale=1.0, shift=-2.0))
    ranked = [Recalled("track_order", 0.3), Recalled("cancel_order", 0.2)]
    assert head.predict(seen(features=(2, 0, 0), recalled=ranked)).flows == ("track_order",)
    told = [ranked[0]._replace(similarity=0.1, support=0.01), ranked[1]._replace(similarity=0.1)]
    assert head.predict(seen(features=(2, 0, 0), recalled=told)).flows == ()


@pytest.mark.row("F9", "F17")
def test_a_lone_flow_is_not_likelier_for_being_alone() -> None:
    head = make()
    among = head.predict(seen(features=(2, 0, 0)))
    alone = head.predict(seen(features=(2, 0, 0), flows=("cancel_order",), hidden=("track_order",)))
    assert among.flows == ("track_order",)
    assert (alone.flows, alone.reason) == ((), "a flow that may not be chosen now is likelier")
    assert dict(alone.ranking)["cancel_order"] == pytest.approx(dict(among.ranking)["cancel_order"])
    assert "track_order" not in dict(alone.ranking)
    # A flow that the head has not learnt has no say while it is hidden.
    new = head.predict(seen(features=(0, 2, 0), flows=("cancel_order",), hidden=("never_learnt",)))
    assert new.flows == ("cancel_order",)


def test_distance_to_the_flows_means() -> None:
    space = Space(np.eye(3, dtype=np.float32), np.array([[2, 0, 0], [0, 2, 0]], np.float32))
    assert space.distance(np.array([[2.0, 0, 0], [2, 0, 3]])) == pytest.approx([0, 3])
    head = make(
        LABELS[:2], space=space, open_set=OpenSet("mahalanobis", threshold=-1.0, scale=1.0, shift=1.0)
    )
    near = [Recalled("track_order", 0.5, 0.8, 0.5)]
    assert head.predict(seen(features=(2, 0, 0), recalled=near)).flows == ("track_order",)
    assert head.predict(seen(features=(2, 0, 4), recalled=near)).flows == ()
    assert stored(head).fingerprint == head.fingerprint


def test_several_wishes_by_the_rule() -> None:
    text = "where is my parcel and then cancel the lamp"
    head = make(rule=ClauseRule(), blend=BLEND._replace(bare=(2.0, 0.0, -2.0)))
    _, *parts = head.texts(text)
    assert parts[0] == text
    rows = [
        (2, 2, 0) if part == text else ((3, 0, 0) if part.startswith("where") else (0, 3, 0))
        for part in parts
    ]
    clauses = [Clause(part, np.array(row, dtype=np.float32)) for part, row in zip(parts, rows, strict=True)]
    said = head.predict(seen(text, (2, 2, 0), clauses=clauses))
    assert said.flows == ("track_order", "cancel_order")
    assert make().texts(text) == (text,)
    again = stored(head)
    assert again.predict(seen(text, (2, 2, 0), clauses=clauses)) == said


# --- the file -----------------------------------------------------------------------------------------------


@pytest.mark.row("C2")
def test_written_and_read(tmp_path: Path) -> None:
    grams = lexical()
    grams.bias = np.array([0.1, -0.2, 0.05], np.float32)
    grams.idf = np.array([1, 2, 3, 0.5], np.float32)
    head = make(
        lexical=grams,
        blend=BLEND._replace(lexical=1.0),
        trust=Trust((0.1, 0.9, 0.2), (0.0, 0.8)),
        open_set=OpenSet("energy", -3.0, 0.5, 1.0),
    )
    path = tmp_path / "heads.safetensors"
    path.write_bytes(heads_to_bytes({"select": head}))
    again: Any = heads_from_bytes(path.read_bytes())["select"]
    assert heads_to_bytes({"select": again}) == path.read_bytes()
    assert again.fingerprint == head.fingerprint
    asked = seen("where and stop", (1, 0.5, 0), recalled=[Recalled("track_order", 0.3, 0.5, 0.1)])
    assert again.predict(asked) == head.predict(asked)
    assert (again.labels, again.trust, again.open_set, again.blend) == (
        head.labels,
        head.trust,
        head.open_set,
        head.blend,
    )


def test_the_fingerprint_speaks_for_all_of_it() -> None:
    head = make()
    others = [
        make(lexical=lexical()),
        make(LABELS[::-1]),
        make(blend=BLEND._replace(lexical=0.1)),
        make(trust=Trust((0.1, 1.0, 0.0))),
        make(open_set=OpenSet(threshold=-1.0)),
        make(rule=ClauseRule()),
        make(near=0.6),
        make(near=None),
    ]
    assert len({head.fingerprint, *(other.fingerprint for other in others)}) == 9
    assert [stored(each).near for each in (head, *others[-2:])] == [
        NEAR,
        0.6,
        None,
    ]
    assert copy.deepcopy(head) is head
    with pytest.raises(ValueError, match="read-only"):
        head.weights[0, 0] = 0


@pytest.mark.parametrize(
    ("labels", "weights", "bias", "match"),
    [
        (["a", "b"], np.zeros((3, 12)), np.zeros(2), "do not fit its labels"),
        (["a", "b"], np.zeros((2, 12)), np.zeros(3), "do not fit its labels"),
        (["a", "b"], np.zeros((2, 4)), np.zeros(2), "do not fit its labels"),
        (["a", "b"], np.zeros(2), np.zeros(2), "do not fit its labels"),
        (["a", "a"], np.zeros((2, 12)), np.zeros(2), "each once"),
        ([], np.zeros((0, 12)), np.zeros(0), "needs labels"),
        (["a", "b"], np.full((2, 12), np.nan), np.zeros(2), "not finite"),
        (["a", "b"], np.zeros((2, 12)), np.array([0, np.inf]), "not finite"),
    ],
)
def test_bad_weights(labels: list[str], weights: Any, bias: Any, match: str) -> None:
    with pytest.raises(ArtifactError, match=match):
        SelectionHead(labels, weights, bias)


@pytest.mark.parametrize("features", [np.ones(4), np.ones((2, 3)), np.array([1, np.nan, 4]), np.array(1.0)])
def test_bad_features(features: Any) -> None:
    with pytest.raises(InputError):
        make().predict(HeadInput(Turn(text="hello"), features, (), FLOWS))


def test_bad_files() -> None:
    head = make(lexical=lexical())
    data = heads_to_bytes({"select": head})
    old = {"format": 1, "features": "selection/1", "labels": ["a", "b"], "temperature": 1.0}
    state = head.to_state()

    def changed(**changes: Any) -> bytes:
        return states_to_bytes({"select": HeadState(state.arrays, state.settings | changes)})

    assert heads_from_bytes(changed())["select"].fingerprint == head.fingerprint
    for bad, match in [
        (b"", "cannot be read"),
        (b"no safetensors at all", "cannot be read"),
        (data[:-4], "cannot be read"),
        (save({"weights": head.weights, "bias": head.bias}), "cannot be read"),
        (save({"select/weights": head.weights}, metadata={"heads": "[]"}), "cannot be read"),
        (states_to_bytes({"select": HeadState(state.arrays, old)}), "format 1"),
        (states_to_bytes({"chat": state}), "no stage 'chat'"),
        (states_to_bytes({"select": HeadState({}, state.settings)}), "cannot be read"),
        (changed(format=3), "format 3"),
        (changed(features="selection/0"), r"other features \(selection/0\)"),
        (changed(labels=["a", "b"]), "do not fit its labels"),
        (changed(blend={"linear": 1, "unknown": 2}), "cannot be read"),
        (changed(open_set={"kind": "mahalanobis"}), "do not fit"),
        (changed(near=1.5), "not a cosine"),
        (changed(near="much"), "cannot be read"),
    ]:
        with pytest.raises(ArtifactError, match=match) as caught:
            heads_from_bytes(bad, "here")
        assert caught.value.where == "here"
        assert caught.value.remedy == "Compile the program again."


# --- the state ----------------------------------------------------------------------------------------------


def test_features_show_the_state() -> None:
    assert state_features(Turn(text="hello")).tolist() == [2, 0, 0, 0, 0, 0, 0, 0]
    busy = Turn(
        text="hello", status="collecting_slots", flow="track_order", awaiting="order_id", paused=["other"],
        history=[{"role": "user", "text": "hi"}],
    )  # fmt: skip
    assert state_features(busy).tolist() == [0, 0, 2, 0, 0, 2, 2, 2]


def test_each_status_has_a_place() -> None:
    rows = {tuple(state_features(Turn(text="x", status=each))) for each in ConversationStatus}
    assert len(rows) == len(ConversationStatus)
