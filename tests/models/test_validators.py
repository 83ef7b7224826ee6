"""Validators: registered by name, asked about values, and refused at load where nobody has registered them."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy import Flow, FlowRegistry, Slot, ValidatorRegistry
from jazzmine_dspy.models.errors import ExtensionError, FlowError

SECRET = "sk-secret-0123"


@pytest.fixture
def hang() -> Iterator[threading.Event]:
    """Never set while a test runs; set after it, so that no thread of it stays behind."""
    event = threading.Event()
    yield event
    event.set()


@pytest.mark.row("U8")
async def test_a_validator_says_yes_or_no_with_a_reason() -> None:
    @ValidatorRegistry.register("city")
    def city(value: str) -> bool | str:
        return value in ("Rome", "Oslo") or f"We do not fly to {value}."

    @ValidatorRegistry.register("later")
    async def later(value: str, slots: dict[str, Any]) -> bool:
        await asyncio.sleep(0)
        return value > slots.get("from", "")

    assert city("Rome") is True
    # The snippet of the reference document: valid is true in a condition.
    is_valid = ValidatorRegistry.validate("city", "Rome")
    assert is_valid
    refused = ValidatorRegistry.validate("city", "Atlantis")
    assert not refused
    assert (refused.reason, refused.failure) == ("We do not fly to Atlantis", "")
    assert (await ValidatorRegistry.avalidate("city", "Atlantis")) == refused
    for slots, valid in (({"from": "b"}, False), ({"from": "a"}, True), (None, True)):
        assert bool(await ValidatorRegistry.avalidate("later", "b", slots)) is valid
    assert ValidatorRegistry.validate("later", "b", {"from": "b"}).reason == "'b' is not valid"


@pytest.mark.row("U8")
def test_an_unknown_name_is_never_taken_for_valid() -> None:
    ValidatorRegistry.register("order_known", str.isdigit)
    with pytest.raises(ExtensionError, match=r"Unknown validator 'ordr_known'.*Did you mean 'order_known'"):
        ValidatorRegistry.validate("ordr_known", "4471")


@pytest.mark.row("U8")
@pytest.mark.parametrize("result", [None, "", " ", 1, [], SECRET.encode()])
def test_anything_else_than_a_verdict_refuses_the_value(
    result: Any, caplog: pytest.LogCaptureFixture
) -> None:
    ValidatorRegistry.register("odd", lambda value: result)
    with caplog.at_level(logging.WARNING):
        verdict = ValidatorRegistry.validate("odd", "x")
    assert not verdict
    assert "validator odd: InputError: The validator returned" in verdict.failure
    assert "validator 'odd' failed" in caplog.text
    assert SECRET not in caplog.text + str(verdict)


@pytest.mark.row("U8", "G2")
@pytest.mark.parametrize("error", [RuntimeError(SECRET), StopIteration(), SystemExit(1), KeyboardInterrupt()])
async def test_a_validator_that_raises_refuses_the_value_with_its_cause(error: BaseException) -> None:
    def broken(value: str) -> bool:
        raise error

    ValidatorRegistry.register("broken", broken)
    for verdict in (
        ValidatorRegistry.validate("broken", "x"),
        await ValidatorRegistry.avalidate("broken", "x"),
    ):
        assert (verdict.valid, verdict.reason) == (False, "'x' cannot be checked at the moment")
        assert type(error).__name__ in verdict.failure
        assert SECRET not in str(verdict)


@pytest.mark.row("U8", "G2")
@pytest.mark.parametrize("error", [RuntimeError(SECRET), StopAsyncIteration(), SystemExit(1)])
async def test_an_async_validator_that_raises_ends_no_event_loop(error: BaseException) -> None:
    async def broken(value: str) -> bool:
        raise error

    ValidatorRegistry.register("broken", broken)
    for verdict in (
        ValidatorRegistry.validate("broken", "x"),
        await ValidatorRegistry.avalidate("broken", "x"),
    ):
        assert not verdict
        assert type(error).__name__ in verdict.failure


@pytest.mark.row("U8", "G2")
async def test_a_validator_that_hangs_refuses_the_value_within_the_deadline(hang: threading.Event) -> None:
    async def forever(value: str) -> bool:
        await asyncio.Event().wait()
        return True

    async def cancelled(value: str) -> bool:
        raise asyncio.CancelledError

    ValidatorRegistry.register("hangs", lambda value: hang.wait())
    ValidatorRegistry.register("forever", forever)
    ValidatorRegistry.register("cancelled", cancelled)
    for name in ("hangs", "forever"):
        verdict = await ValidatorRegistry.avalidate(name, "x", deadline=0.01)
        assert verdict.failure == f"validator {name}: DeadlineError: No answer in time."
    assert not ValidatorRegistry.validate("hangs", "x", deadline=0.01)
    assert "CancelledError" in (await ValidatorRegistry.avalidate("cancelled", "x")).failure


def test_what_cannot_be_a_validator_is_refused_when_it_is_registered() -> None:
    for function in (5, lambda: True, lambda value, other, more: True, lambda value, *, limit: True):
        with pytest.raises(ExtensionError, match="cannot be used"):
            ValidatorRegistry.register("odd", function)
    with pytest.raises(ExtensionError, match="cannot be the name"):
        ValidatorRegistry.register("Order exists", str.isdigit)
    ValidatorRegistry.register("digits", str.isdigit)
    with pytest.raises(ExtensionError, match="taken twice"):
        ValidatorRegistry.register("digits", str.isalpha)


def test_an_optional_second_argument_is_not_filled_with_the_slots() -> None:
    def at_least(value: int, least: int = 3) -> bool:
        return value >= least

    ValidatorRegistry.register("at_least", at_least)
    assert ValidatorRegistry.validate("at_least", 3, {"other": 1})


# --- flows -----------------------------------------------------------------------------------------------


@pytest.mark.row("U8")
def test_an_unknown_validator_is_refused_when_flows_are_loaded(tmp_path: Path) -> None:
    path = tmp_path / "flows.yaml"
    path.write_text(
        "flows:\n- name: track\n  description: Tell where an order is.\n  slots:\n"
        "  - name: order_id\n    type: text\n    validator: ordr_known\n"
    )
    with pytest.raises(
        FlowError, match=r"Unknown validator 'ordr_known'.*Register it with ValidatorRegistry"
    ):
        FlowRegistry.from_yaml(path)
    ValidatorRegistry.register("order_known", str.isdigit)
    with pytest.raises(FlowError) as caught:
        FlowRegistry.from_yaml(path)
    assert caught.value.where == f"{path}:7, flow 'track', field slots.0.validator"
    assert caught.value.remedy.startswith("Did you mean 'order_known'?")
    slot = Slot(name="order_id", type="text", validator="ordr_known")
    part = Flow(name="part", description="x", slots=[slot])
    whole = Flow(name="whole", description="x", kind="sequential", subflows=[part])
    for flow in (part, whole):
        with pytest.raises(FlowError, match="Unknown validator"):
            FlowRegistry([flow])
    path.write_text(path.read_text().replace("ordr", "order"))
    assert FlowRegistry.from_yaml(path)["track"].slot("order_id") is not None


@pytest.mark.parametrize(
    ("text", "where", "says"),
    [
        ("curency: GBP\nflows: []\n", ":1, field curency", "Did you mean 'currency'?"),
        ("flows:\n- name: a\n  descripton: x\n", ":3, flow 'a', field descripton", "Did you mean 'description'?"),
        (
            "flows:\n- name: a\n  description: x\n  slots:\n  - {name: s, type: text}\n  - name: t\n"
            "    type: text\n    patern: x\n",
            ":8, flow 'a', field slots.1.patern",
            "Did you mean 'pattern'?",
        ),
        (
            '{"flows": [{"name": "a", "description": "x",\n "guards": [{"statuss": ["idle"]}]}]}',
            ":2, flow 'a', field guards.0.statuss",
            "Did you mean 'status'?",
        ),
    ],
)  # fmt: skip
def test_a_misspelt_key_is_refused_with_the_nearest(tmp_path: Path, text: str, where: str, says: str) -> None:
    path = tmp_path / "flows.yaml"
    path.write_text(text)
    with pytest.raises(FlowError) as caught:
        FlowRegistry.from_yaml(path)
    assert caught.value.message.startswith(("Unknown key", "Field required"))
    assert (caught.value.where, caught.value.remedy) == (f"{path}{where}", says)


def test_a_note_next_to_the_flows_is_no_misspelt_key(tmp_path: Path) -> None:
    path = tmp_path / "flows.yaml"
    path.write_text("x-texts: &ask Which order?\nflows: []\n")
    assert len(FlowRegistry.from_yaml(path)) == 0
