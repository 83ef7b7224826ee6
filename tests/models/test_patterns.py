"""Patterns of slots: values are read as people type them, and stored in the form of the pattern."""

from __future__ import annotations

import logging
import time
from typing import Any

import pytest
import regex

from jazzmine_dspy.models import Slot, patterns
from jazzmine_dspy.models.patterns import pattern_matches
from jazzmine_dspy.models.slots import breaks_pattern, call_type

# Name, pattern, and for each answer the value that is stored; None if the answer is no value.
TYPED: list[tuple[str, str, dict[str, str | None]]] = [
    ("plate", r"[A-Z]{2}\d{2} [A-Z]{3}", {"ab12cde": "AB12 CDE", "it's AB12 CDE": "AB12 CDE"}),
    ("plate_de", r"[A-Z]{1,3}-[A-Z]{1,2} \d{1,4}", {"m ab 1234": "M-AB 1234", "HH-X 9": "HH-X 9", "mab 12": None}),
    ("booking", r"[A-Z0-9]{6}", {"ABC123": "ABC123", "abc123": "ABC123", "it's ABC 123": "ABC123", "cancel": None,
                                 "2 boxes": None, "for 200": None, "it's not ABC123": None}),
    ("ticket", r"WS-\d{4}", {"ws 2041": "WS-2041", "2041": "WS-2041", "WS2041": "WS-2041", "it's 2041": "WS-2041",
                             "my ticket is ws 2041": "WS-2041", "204": None, "not 2041": None}),
    ("visit", r"A\d{3}", {"102": "A102", "it's 102": "A102", "a 102": "A102", "A-102": "A102", "102 pounds": None,
                          "not 102": None, "1020": None, "12": None}),
    ("parcel", r"PX[0-9]{4}", {"px 2041": "PX2041", "2041": "PX2041", "my parcel is px 2041": "PX2041"}),
    ("member_no", r"M-\d{3}", {"102": "M-102", "m 102": "M-102", "102 pounds": None}),
    ("iban", r"[A-Z]{2}\d{2}[A-Z0-9]{11,30}", {"de89 3704 0044 0532 0130 00": "DE89370400440532013000"}),
    ("postcode", r"[A-Z]{1,2}\d[A-Z\d]? \d[A-Z]{2}", {"sw1a1aa": "SW1A 1AA", "M11AE": "M1 1AE"}),
    ("postcode_nl", r"\d{4} ?[A-Z]{2}", {"1012 ab": "1012 AB", "1012ab": "1012AB"}),
    ("postcode_de", r"^\d{5}$", {"10115": "10115", "one zero one one five": "10115", "10115 please": "10115"}),
    ("postcode_ca", r"[A-Z]\d[A-Z] \d[A-Z]\d", {"k1a0b1": "K1A 0B1", "K1A-0B1": "K1A 0B1"}),
    ("zip", r"\d{5}(-\d{4})?", {"94105": "94105", "94105-1234": "94105-1234"}),
    ("sku", r"SKU-[A-Z]{2}-\d{3}", {"sku ab 123": "SKU-AB-123", "skuab123": "SKU-AB-123", "ab 123": "SKU-AB-123"}),
    ("issue", r"[A-Z]{2,5}-\d{1,5}", {"ops 512": "OPS-512", "ops512": "OPS-512"}),
    ("flight", r"[A-Z]{2}\d{1,4}", {"ua 318": "UA318", "flight lh 400": "LH400"}),
    ("order", r"#\d{5}", {"10233": "#10233", "#10233": "#10233"}),
    ("invoice", r"INV/\d{4}/\d{3}", {"inv-2026-014": "INV/2026/014", "2026/014": "INV/2026/014"}),
    ("return", r"(?:RMA|RET)-\d{6}", {"rma004512": "RMA-004512", "ret 004512": "RET-004512"}),
    ("vin", r"[A-HJ-NPR-Z0-9]{17}", {"1hgcm82633a004352": "1HGCM82633A004352"}),
    ("imei", r"\d{15}", {"49-015420-323751-8": "490154203237518"}),
    ("device", r"[0-9a-f]{8}", {"DEADBE3F": "deadbe3f"}),
    ("member", r"M\d{3}\.\d{3}", {"m123456": "M123.456", "M123 456": "M123.456"}),
    ("case", r"\d{2}-\d{5}", {"24 01234": "24-01234", "2401234": "24-01234"}),
    ("span", r"\d+-\d+", {"12 34": "12-34", "1234": None}),
    ("letters", r"[A-Z]{3}-[A-Z]{3}", {"abc-def": "ABC-DEF", "can you": None, "not now": None, "cancel": None}),
]  # fmt: skip


@pytest.mark.row("U7")
@pytest.mark.parametrize(
    ("name", "pattern", "typed", "stored"),
    [(name, pattern, *each) for name, pattern, answers in TYPED for each in answers.items()],
)
def test_an_answer_is_stored_in_the_form_of_the_pattern(
    name: str, pattern: str, typed: str, stored: Any
) -> None:
    slot = Slot(name=name, type="text", pattern=pattern)
    assert call_type(slot, "parse", typed, "failed") == stored
    if stored is not None:
        assert not breaks_pattern(slot, stored)
        assert call_type(slot, "normalize", stored, "failed") == stored


def test_a_value_with_the_letters_of_its_pattern_stands_in_a_longer_message() -> None:
    ticket = Slot(name="ticket", type="text", pattern=r"WS-\d{4}")
    assert pattern_matches(ticket, "hi, nothing happens since monday on ws 2041, can you look") == ["WS-2041"]
    assert pattern_matches(ticket, "there were 2041 of us in 2025") == []
    booking = Slot(name="booking", type="text", pattern="[A-Z0-9]{6}")
    assert pattern_matches(booking, "please cancel QX81LT, nothing else") == ["QX81LT"]
    assert pattern_matches(booking, "please cancel my flight") == []
    assert pattern_matches(Slot(name="code", type="text", pattern=r"\w+"), "I have 2 kids") == []


@pytest.mark.parametrize("pattern", [r"(a+)+b", r"(\w+\s?)*!", r"([A-Z]+-?)+\d", r"(\d+)*x", r"\d+-\d+-\d+"])
@pytest.mark.parametrize("part", ["a", "A1 ", "1 ", "1-", "a-", "A for apple "])
def test_no_pattern_and_no_message_hangs(pattern: str, part: str, caplog: pytest.LogCaptureFixture) -> None:
    slot = Slot(name="code", type="text", pattern=pattern)
    message = (part * 8000)[:8000]
    began = time.process_time()
    with caplog.at_level(logging.WARNING):
        call_type(slot, "parse", message, None)
        pattern_matches(slot, message)
        breaks_pattern(slot, message)
    # Without a limit some of these take longer than the universe.
    assert time.process_time() - began < 10
    assert message not in caplog.text


class _CutOff:
    """A compiled expression on a busy machine: searches with a lower limit than it needs are cut off.

    Args:
        needs: Seconds of all threads.
        own: Seconds of its own thread.
    """

    def __init__(self, pattern: str, needs: float, own: float) -> None:
        self.compiled, self.needs, self.own, self.tries = regex.compile(pattern), needs, own, 0

    def finditer(self, text: str, timeout: float) -> Any:
        self.tries += 1
        began = time.thread_time()
        while time.thread_time() - began < self.own:
            pass
        if timeout < self.needs:
            raise TimeoutError
        return self.compiled.finditer(text)


@pytest.mark.row("U7")
def test_a_search_that_other_threads_cut_off_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cut_off = _CutOff("b+", needs=0.35, own=0.001)
    monkeypatch.setattr(patterns, "expression", lambda *_, **__: cut_off)
    assert patterns.search("b+", "a search that is cut off twice: bb") == ((32, 34),)
    assert cut_off.tries == 3
    assert "takes too long" not in caplog.text
    endless = _CutOff("b+", needs=1e9, own=0.06)
    monkeypatch.setattr(patterns, "expression", lambda *_, **__: endless)
    assert patterns.search("b+", "a search that takes its own time: bb") == ()
    assert endless.tries == 2
    assert "takes too long" in caplog.text
