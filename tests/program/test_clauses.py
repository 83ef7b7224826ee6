"""Several flows in one message: where it is cut, and how its readings are weighed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from jazzmine_dspy.models.errors import InputError
from jazzmine_dspy.program._cuts import find_cuts
from jazzmine_dspy.program.clauses import NONE, ClauseRule, Ranking

RULE = ClauseRule()
LABELS = ("track", "cancel", "refund", NONE)


def pieces(text: str, rule: ClauseRule = RULE) -> list[str]:
    cuts = rule.cuts(text)
    starts, ends = [0, *(cut.end for cut in cuts)], [*(cut.start for cut in cuts), len(text)]
    return [text[start:end].strip() for start, end in zip(starts, ends, strict=True)]


def ranking(best: str, p: float) -> Ranking:
    """The best label with its probability; the others share the rest."""
    rest = (1 - p) / (len(LABELS) - 1)
    return [(best, p), *((label, rest) for label in LABELS if label != best)]


def decided(
    text: str, judged: Mapping[str, tuple[str, float]], rule: ClauseRule = RULE
) -> tuple[tuple[str, ...], float]:
    """What the rule answers where each part that is named is judged so, and of every other nothing is known."""
    parts = rule.parts(text)
    rankings = [ranking(*judged.get(part, ("track", 0.25))) for part in parts]
    return rule.decide(rankings[0] if parts else ranking(*judged[text]), parts, rankings)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("book a table, and then play jazz", ["book a table", "play jazz"]),
        ("Where is it? Cancel the rest!", ["Where is it", "Cancel the rest!"]),
        ("track it; refund it\ncancel it", ["track it", "refund it", "cancel it"]),
        ("book it AND  THEN play it", ["book it", "play it"]),
        ("取消订单，然后查一下快递。", ["取消订单", "然后查一下快递。"]),  # noqa: RUF001
        ("cancela el pedido; ¿dónde está el otro?", ["cancela el pedido", "¿dónde está el otro?"]),
        ("track 4471 - cancel 4472", ["track 4471", "cancel 4472"]),
    ],
)
def test_cut_at_connectors_and_marks(text: str, expected: list[str]) -> None:
    assert pieces(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "", "   ", "and then", ", . ;", "where is my order", "and track it", "track it, ", "a brand sandy handle",
        "pay 1,000 euros", "pay 1 , 000 euros", "it is 10.30 at 5 p.m. today", "between 2 and 3", "rooms 2, 3",
        'play "salt, pepper and then sugar" again', "play \u201csalt and pepper\u201d", "play 'salt and pepper' now",
        "songs by Simon and Garfunkel please", "we met in Lyon, France last year", "it's 12.50", "up-to-date",
    ],
)  # fmt: skip
def test_no_cut_in_words_quotes_numbers_names_or_at_the_ends(text: str) -> None:
    assert pieces(text) == [text.strip()]
    assert RULE.parts(text) == ()


def test_an_apostrophe_opens_no_quote() -> None:
    assert pieces("where's my parcel and then what's open") == ["where's my parcel", "what's open"]


def test_another_language_brings_its_own_connectors() -> None:
    german = ClauseRule(connectors=(("und dann", 2.0), ("und", 0.0), ("然后", 1.0)))
    assert pieces("wo ist es und dann storniere es, ja", german) == ["wo ist es", "storniere es, ja"]
    assert pieces("取消订单然后查快递", german) == ["取消订单", "查快递"]
    assert pieces("der hund bellt", german) == ["der hund bellt"]


def test_parts_are_the_message_and_each_span() -> None:
    text = "track a, cancel b and then refund c"
    assert RULE.parts(text) == (
        text, "track a", "track a, cancel b", "cancel b", "cancel b and then refund c", "refund c",
    )  # fmt: skip
    assert len(ClauseRule(most_cuts=8).parts("go there. " * 50)) == 45
    assert len(RULE.parts("go there. " * 50)) == 21


def test_the_likeliest_cuts_are_kept() -> None:
    rule = ClauseRule(most_cuts=1)
    assert pieces("red, green, blue and then stop, please", rule) == ["red, green, blue", "stop, please"]


@given(st.text(max_size=300) | st.text(alphabet="ab ,.;'\"1and\n", max_size=120))
def test_any_text_is_cut_or_left_as_it_is(text: str) -> None:
    rule = ClauseRule(most_cuts=3)
    cuts = rule.cuts(text)
    ends = [0, *itertools.chain.from_iterable((cut.start, cut.end) for cut in cuts), len(text)]
    assert ends == sorted(ends)
    assert len(cuts) <= 3
    parts = rule.parts(text)
    assert len(parts) == ((len(cuts) + 1) * (len(cuts) + 2) // 2 if cuts else 0)
    assert all(part.strip() and part in text for part in parts)
    if parts:
        flows, confidence = rule.decide(ranking("track", 0.7), parts, [ranking("track", 0.7)] * len(parts))
        assert flows == ("track",)
        assert 0 <= confidence <= 1


@pytest.mark.row("F10")
def test_two_clear_clauses_are_two_flows_in_their_order() -> None:
    text = "refund the lamp and then track the rug"
    judged = {"refund the lamp": ("refund", 0.95), "track the rug": ("track", 0.95), text: ("track", 0.5)}
    flows, confidence = decided(text, judged)
    assert flows == ("refund", "track")
    assert confidence > 0.8
    turned = "track the rug and then refund the lamp"
    assert decided(turned, judged | {turned: ("track", 0.5)})[0] == ("track", "refund")


@pytest.mark.row("F10")
def test_three_flows_and_no_more() -> None:
    text = "track a here; cancel b here; refund c here; track d here"
    judged = {
        "track a here": ("track", 0.97), "cancel b here": ("cancel", 0.97), "refund c here": ("refund", 0.97),
        "refund c here; track d here": ("refund", 0.9), text: ("cancel", 0.3),
    }  # fmt: skip
    assert decided(text, judged)[0] == ("track", "cancel", "refund")
    assert len(decided(text, judged, ClauseRule(counts=(0.0, 0.0)))[0]) <= 2
    assert len(decided(text, judged, ClauseRule(counts=(0.0,)))[0]) == 1


@pytest.mark.row("F10")
def test_a_connector_within_one_wish_does_not_cut() -> None:
    text = "find the red one and the blue one"
    judged = {text: ("track", 0.95), "find the red one": ("track", 0.9), "the blue one": ("cancel", 0.3)}
    assert decided(text, judged)[0] == ("track",)


def test_the_same_wish_twice_is_one_flow() -> None:
    text = "track the lamp and then track the rug"
    judged = {text: ("track", 0.9), "track the lamp": ("track", 0.99), "track the rug": ("track", 0.99)}
    assert decided(text, judged)[0] == ("track",)


def test_a_clause_that_wants_nothing_adds_nothing() -> None:
    text = "hello my dear friend. where is the lamp"
    judged = {text: (NONE, 0.5), "hello my dear friend": (NONE, 0.99), "where is the lamp": ("track", 0.99)}
    assert decided(text, judged)[0] == ("track",)
    assert decided("hello there my friend", {"hello there my friend": (NONE, 0.9)}) == ((), 0.9)


def test_which_single_flow_is_told_by_the_ranking_of_the_whole() -> None:
    text = "the red one and the blue one"
    parts = RULE.parts(text)
    judged = [ranking("cancel", 0.9), *[ranking("cancel", 0.3)] * (len(parts) - 1)]
    assert RULE.decide(ranking("track", 0.9), parts, judged)[0] == ("track",)
    assert RULE.decide(ranking("track", 0.6)) == (("track",), 0.6)


def reference(rule: ClauseRule, text: str, rankings: Sequence[Ranking]) -> dict[tuple[str, ...], float]:
    """Probabilities of flows by the definition: every subset of cuts, every choice of three labels for each span."""
    cuts, weights = rule.cuts(text), dict(rule.connectors)
    edges = [
        (0, cuts[0].start),
        *((a.end, b.start) for a, b in itertools.pairwise(cuts)),
        (cuts[-1].end, len(text)),
    ]
    known = dict(zip(rule.parts(text), rankings, strict=True))
    mass: dict[tuple[str, ...], float] = {}
    uncut = 0.0
    for made in itertools.product([False, True], repeat=len(cuts)):
        groups: list[list[tuple[int, int]]] = [[edges[0]]]
        for cut, edge in zip(made, edges[1:], strict=True):
            if cut:
                groups.append([edge])
            else:
                groups[-1].append(edge)
        if len(groups) > len(rule.counts):
            continue
        spans = [text[group[0][0] : group[-1][1]].strip() for group in groups]
        odds = rule.counts[len(spans) - 1] + sum(rule.short * (len(span.split()) < 3) for span in spans)
        odds += sum(
            weights[name] for cut, yes in zip(cuts, made, strict=True) if yes for name in cut.connectors
        )
        for choice in itertools.product(*(known[span][:3] for span in spans)):
            flows = tuple(label for label, _ in choice if label != NONE)
            score = math.exp(odds + rule.scale * sum(math.log(p) for _, p in choice))
            if len(spans) == 1:
                uncut += score
            elif len(set(flows)) == len(flows):
                mass[flows] = mass.get(flows, 0.0) + score
    total = sum(mass.values()) + uncut
    for label, p in rankings[0]:
        flows = () if label == NONE else (label,)
        mass[flows] = mass.get(flows, 0.0) + uncut * p
    return {flows: score / total for flows, score in mass.items()}


@settings(max_examples=40, deadline=None)
@given(st.lists(st.permutations(LABELS), min_size=10, max_size=10), st.floats(0.4, 2.0), st.floats(-2.0, 2.0))
def test_the_decision_is_the_likeliest_of_all_readings(
    orders: list[list[str]], scale: float, two: float
) -> None:
    rule = ClauseRule(scale=scale, counts=(0.0, two, 0.5), short=-0.7)
    text = "track the ant, go bat and then refund the cat. stop dog"
    rankings = [list(zip(order, (0.6, 0.25, 0.1, 0.05), strict=True)) for order in orders]
    expected = reference(rule, text, rankings)
    flows, confidence = rule.decide(rankings[0], rule.parts(text), rankings)
    assert confidence == pytest.approx(expected[flows])
    assert confidence == pytest.approx(max(expected.values()))


@pytest.mark.row("F10")
def test_flows_that_stand_together_are_taken_by_probability() -> None:
    rule = ClauseRule(together=0.4)
    assert rule.parts("freeze it and replace it") == ()
    assert rule.decide([("a", 0.5), ("b", 0.3), ("c", 0.1), (NONE, 0.1)]) == (("a", "b", "c"), 0.5)
    assert rule.decide([("a", 0.9), ("b", 0.03), ("c", 0.02)])[0] == ("a",)
    assert rule.decide([("a", 0.5), (NONE, 0.4), ("b", 0.1)])[0] == ("a",)
    assert rule.decide([(NONE, 0.6), ("a", 0.4)]) == ((), 0.6)
    assert rule.decide([("a", 1.0), ("b", 0.0)]) == (("a",), 1.0)


def test_trust_calibrates_answers_of_several_flows_alone() -> None:
    text = "refund the lamp and then track the rug"
    judged = {"refund the lamp": ("refund", 0.9), "track the rug": ("track", 0.9), text: ("track", 0.5)}
    plain, shy = RULE, RULE.model_copy(update={"trust": (1.0, -2.0)})
    before, after = decided(text, judged, plain)[1], decided(text, judged, shy)[1]
    assert math.log(after / (1 - after)) == pytest.approx(math.log(before / (1 - before)) - 2)
    assert shy.decide(ranking("track", 0.7)) == (("track",), 0.7)


def test_what_does_not_fit_is_refused() -> None:
    text = "track a and then cancel b"
    parts = RULE.parts(text)
    for whole, given_parts, rankings in (
        ([], (), ()), (ranking("track", 0.9), parts, ()), (ranking("track", 0.9), parts, [ranking("track", 0.9)] * 2),
        (ranking("track", 0.9), parts, [ranking("track", 0.9), [], []]),
        (ranking("track", 0.9), parts[:2], [ranking("track", 0.9)] * 2),
    ):  # fmt: skip
        with pytest.raises(InputError):
            RULE.decide(whole, given_parts, rankings)
    for wrong in ({"connectors": ((" ", 1.0),)}, {"connectors": (("and", 1.0), ("And", 0.0))}, {"scale": math.nan},
                  {"counts": ()}, {"most_cuts": 9}, {"together": 0.0}, {"unknown": 1}):  # fmt: skip
        with pytest.raises(ValidationError):
            ClauseRule.model_validate(wrong)


def test_kept_as_json() -> None:
    rule = ClauseRule(
        connectors=(("und", 0.25), ("\u7136\u540e", 1.0)), counts=(0.0, 1.5), together=0.3, trust=(0.8, -0.1)
    )
    assert ClauseRule.model_validate_json(rule.model_dump_json()) == rule
    assert ClauseRule.model_validate(rule.model_dump(mode="json")) == rule


def test_long_messages_are_searched_at_their_beginning_alone() -> None:
    text = "walk the dog and then feed the cat, " * 1_250
    assert len(text.split()) == 10_000
    parts = RULE.parts(text)
    assert parts[0] == text
    assert max(map(len, parts[1:])) <= 2_000
    assert len(parts) == 21


@pytest.mark.row("F10")
def test_a_short_and_parts_wishes_too() -> None:
    cuts = find_cuts("cancel order 5519 n get an invoice", ("and",))
    assert [(cut.start, cut.end, cut.connectors) for cut in cuts] == [(18, 19, ("and",))]
    assert find_cuts("rock 'n' roll tickets", ("and",)) == ()
