"""E9: a rewrite keeps to the message and its context, and one that does not is refused."""

from __future__ import annotations

import pytest

from jazzmine_dspy.datasets import load_dataset
from jazzmine_dspy.models import FlowRegistry, Turn
from jazzmine_dspy.program.lm.faithfulness import says_the_same, unfaithful

TALK = [
    {"role": "user", "text": "Where are my orders 4471 and AB-12, the lamp and the kettle?"},
    {"role": "assistant", "text": "The lamp comes on Friday 13 March, the kettle is lost."},
]
FLOWS = FlowRegistry([{"name": "refund_order", "description": "Pay the money back."}])

FAITHFUL = [
    ("and the second?", "Where is order AB-12, the kettle?"),
    ("make it 2, no, 3", "Make it 3."),
    ("8 4 7 1 is it", "The order is 8471."),
    ("I don't want it any more", "Cancel order 4471."),
    ("no, the kettle", "Where is the kettle?"),
    ('put "for Ann" on it', 'Put "for Ann" on the lamp.'),
    ("money back then", "Refund the kettle, order AB-12."),
    ("call me at 11.30", "Call me about the lamp at 11:30."),
    ("mail ann.99@example.org instead", "Mail ann.99@example.org about the lamp instead."),
    ("tomorrow please", "Bring the lamp on 11 March please."),
    (
        "\u05d0\u05d9\u05e4\u05d4 \u05d6\u05d4?",
        "\u05d0\u05d9\u05e4\u05d4 \u05d4\u05d4\u05d6\u05de\u05e0\u05d4?",
    ),
    ("👍", "👍 The lamp."),
    ("can't you just send it?", "Please send the lamp."),
    ("I wouldn't mind the money back", "Send the money back for the kettle."),
    ("thirteen, and twenty lamps", "13 and 20 of the lamp."),
    ("a couple of them", "2 of the lamp."),
    ("the bill was 12.50", "The bill of the lamp was 12,5."),
    ("not the lamp, the kettle", "Where is the kettle instead of the lamp?"),
    ("I refuse to pay", "I will not pay."),
    ("I don't want the lamp", "I want no lamp."),
    ("no, not 3, 4", "Make it 4."),
    ("order 9032, sorry, the kettle", "Where is the kettle?"),
    ("wo ist denn der Kessel", "Wo ist denn der Kessel aus der Bestellung?"),
    ("2 for the lamp, wait, 3", "3 for the lamp."),
    ("not 4471 but AB-12", "Where is order AB-12?"),
    ("can I not get it?", "Can I get the lamp?"),
    ("the lamp on 13/03", "The lamp on 13 March."),
    ("the lamp this afternoon", "The lamp on Tuesday 10 March in the afternoon."),
    ("the lamp at 0930", "The lamp at 9:30."),
    ("the lamp on 2026-03-13", "The lamp on Friday 13 March."),
    ("when will it get here?", "When will order 4471 arrive?"),
    ("and the other?", "Where is the toaster?"),
    ("👍", "The customer agrees to the purchase of a toaster."),
    ("locked out again", "I cannot get into my account again."),
    ("no problem, bring it", "Bring the lamp."),
    ("nothing I'd like better", "Yes, bring the lamp."),
    ("hi Ann, where is it?", "Where is the lamp?"),
    ("nein, falscher Tag", "No, it is the wrong day."),
]
UNFAITHFUL = [
    ("and order 9032?", "Where is my order?", "drops a number"),
    ("and order 9032?", "Where is order 9023?", "drops a number"),
    ("and the other?", "Where is order 9032?", "brings a number"),
    ("mail ann.99@example.org", "Mail anna@example.org", "drops a number"),
    ("don't send it", "Send the lamp.", "drops a negation"),
    ("is it late?", "The lamp is not late.", "a negation"),
    ('put "for Ann" on it', 'Put "for Anna" on the lamp.', "drops a quoted text"),
    ("and the other?", "Where is the Vesta kettle?", "brings a name"),
    ("and the other?", "Где чайник?", "a script"),
    ("the one for Ann", "Where is the one for Anna?", "drops a name"),
    ("Ann sent it", "Where is the lamp from Ann Leigh?", "brings a name"),
    ("it says so", 'It says "no refunds".', "brings a quoted text"),
    ("the lamp goes from Ulm to Bonn", "The lamp goes from Bonn to Ulm.", "belong to"),
    ("bring Ann the lamp and Bob the kettle", "Bring Ann the kettle and Bob the lamp.", "belong to"),
    ("the lamp in March", "The lamp in April.", "brings a name"),
    ("serial E300718", "Serial E300781.", "drops a number"),
    ("mail ann@example.org", "Mail bob@example.org", "drops a number"),
    ("where is AB-13?", "Where is XY-13?", "drops a number"),
    ("no, order 9032", "Where is order 4471?", "drops a number"),
    ("actually order 9032", "Where is order 4471?", "drops a number"),
    ("order 9032 is not here", "Where is my order?", "drops a number"),
    ("order 9032 instead", "Where is my order?", "drops a number"),
    ("the bill was 12.50", "The bill was 1250.", "drops a number"),
    ("call 07700900123", "Call 0770090012.", "drops a number"),
    ("the bill was £30", "The bill was €30.", "changes a currency"),
    ("2 lamps and 3 kettles", "3 lamps and 2 kettles", "changes what the numbers"),
    ("don't cancel it", "Cancel it.", "drops a negation"),
    ("sorry, I don't want it", "I want it.", "turns a negation"),
    ("don't cancel it, send it", "Cancel it, don't send it.", "turns a negation"),
    ("keep the order", "Do not keep the order.", "turns a negation"),
    ("I lost the lamp", "I have not lost the lamp.", "turns a negation"),
    ("now please", "Bring the lamp on 22 March.", "brings a number"),
    ("put 'for Ann' on it", "Put 'for Bob' on it.", "drops a quoted text"),
    ("is it here?", "It isn't here.", "a negation"),
    ("we're not calling it off", "Please call it off.", "drops a negation"),
]


def turn(text: str) -> Turn:
    return Turn(text=text, history=TALK, date="2026-03-10")


@pytest.mark.row("E9")
@pytest.mark.parametrize(("text", "rewrite"), FAITHFUL)
def test_a_faithful_rewrite_is_taken(text: str, rewrite: str) -> None:
    assert unfaithful(rewrite, turn(text), FLOWS) == ""
    assert not says_the_same(rewrite, text)


@pytest.mark.row("E9")
@pytest.mark.parametrize(("text", "rewrite", "reason"), UNFAITHFUL)
def test_what_loses_or_invents_content_is_refused_with_the_reason(
    text: str, rewrite: str, reason: str
) -> None:
    assert reason in unfaithful(rewrite, turn(text), FLOWS)


@pytest.mark.row("E9")
def test_what_people_wrote_for_the_dataset_is_taken() -> None:
    data = load_dataset("datasets/support")
    rewrites = [
        (each.labels.enhanced, each.turn)
        for each in data.examples("train", "dev_a", "dev_b")
        if each.labels.enhanced and each.labels.enhanced != each.turn.text
    ]
    refused = [text for text, turn in rewrites if unfaithful(text, turn, data.flows)]
    assert len(rewrites) > 500
    assert len(refused) <= 0.03 * len(rewrites)
