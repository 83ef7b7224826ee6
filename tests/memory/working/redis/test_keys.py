"""All keys of a conversation are in one slot, whatever its id, and lead back to it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.crc import key_slot

from jazzmine_dspy.memory.working.redis import scripts
from jazzmine_dspy.memory.working.redis.keys import Keys
from jazzmine_dspy.models.errors import InputError

ALL = [one for one in vars(scripts).values() if isinstance(one, scripts.Script)]


@pytest.mark.row("W18")
@given(st.text(min_size=1, max_size=50))
def test_every_script_works_in_one_slot(conversation_id: str) -> None:
    keys = Keys("jazzmine")
    try:
        conversation_id.encode()
    except UnicodeEncodeError:
        with pytest.raises(InputError, match="no text"):
            keys.part(conversation_id, "state")
        return
    parts = {part.format(id="a1") for script in ALL for part in script.parts}
    assert len({key_slot(keys.part(conversation_id, part).encode()) for part in parts}) == 1


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=50))
def test_a_key_leads_back_to_its_conversation(conversation_id: str) -> None:
    keys = Keys("p")
    key = keys.part(conversation_id, "aside").encode()
    assert keys.conversation_of(key, "aside") == conversation_id
    assert keys.conversation_of(key, "state") is None


def test_ids_do_not_meet() -> None:
    keys = Keys("p")
    ids = ["a", "a}", "{a}", "a:state", "a%7D", "", " ", "A"]
    assert len({keys.part(one, "state") for one in ids}) == len(ids)


@pytest.mark.parametrize(
    "key",
    [b"p:{a}:lock", b"p:a:state", b"q:{a}:state", b"p:{a b}:state", b"p:{%ff}:state", b"p:{\xff}:state"],
)
def test_a_foreign_key_leads_nowhere(key: bytes) -> None:
    assert Keys("p").conversation_of(key, "state") is None


@pytest.mark.parametrize("prefix", ["", "a{b", "a}b"])
def test_a_prefix_may_not_choose_the_slot(prefix: str) -> None:
    with pytest.raises(InputError, match="no prefix"):
        Keys(prefix)


def test_the_declared_parts_are_all_that_a_script_uses() -> None:
    for script in ALL:
        used = {int(n) for n in __import__("re").findall(r"KEYS\[(\d)\]", script.source)}
        assert used <= set(range(1, len(script.parts) + 1)), script.name
        assert script.parts[:2] == ("state", "meta"), script.name
