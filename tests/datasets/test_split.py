"""Splits: by conversation, stratified, seeded, locked (D4)."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.datasets import ROLES, LabelledConversation, assign_roles, load_dataset, write_splits
from jazzmine_dspy.datasets.split import strata
from jazzmine_dspy.models.errors import DatasetError


def made(number: int) -> list[LabelledConversation]:
    """Conversations of one to three turns; `repeat` is in every tenth, `handoff` in four."""
    generator = random.Random(11)
    found = []
    for n in range(number):
        kinds = [generator.choice(["ask", "chitchat", "affirm"]) for _ in range(generator.randint(1, 3))]
        kinds += ["repeat"] if n % 10 == 0 else []
        kinds += ["handoff"] if n % (number // 4) == 3 else []
        turns = [{"role": "user", "text": kind, "labels": {"commands": [{"type": kind}]}} for kind in kinds]
        found.append(LabelledConversation.model_validate({"id": f"c{n:03}", "turns": turns}))
    return found


@pytest.mark.row("D4")
def test_each_conversation_has_one_role_and_the_shares_hold() -> None:
    conversations = made(200)
    roles = assign_roles(conversations, seed=1)
    assert list(roles) == [conversation.id for conversation in conversations]
    counts = Counter(roles.values())
    for role, share in {"train": 0.5, "dev_a": 0.15, "dev_b": 0.15, "test": 0.2}.items():
        assert abs(counts[role] - 200 * share) <= 3  # type: ignore[index]


@pytest.mark.row("D4")
@pytest.mark.parametrize("seed", range(5))
def test_rare_labels_reach_every_role(seed: int) -> None:
    conversations = made(200)
    roles = assign_roles(conversations, seed=seed)
    for kind, wanted in (("repeat", {"train": 10, "dev_a": 3, "dev_b": 3, "test": 4}), ("handoff", None)):
        held = Counter(roles[c.id] for c in conversations if f"command:{kind}" in strata(c))
        if wanted is None:
            assert len(held) >= 3
        else:
            assert all(abs(held[role] - n) <= 1 for role, n in wanted.items())  # type: ignore[index]


@pytest.mark.row("D4", "V2")
@pytest.mark.parametrize("number", [30, 31, 42, 49, 55])
def test_from_thirty_conversations_on_the_test_part_has_ten(number: int) -> None:
    """Under ten of them no figure of the report has an interval."""
    for seed in range(8):
        counts = Counter(assign_roles(made(number), seed=seed).values())
        assert counts["test"] >= 10
        assert counts["train"] >= number // 4
        assert min(counts["dev_a"], counts["dev_b"]) >= 3
    assert Counter(assign_roles(made(29), seed=0).values())["test"] < 10
    shares = {"train": 0.7, "dev_a": 0.1, "dev_b": 0.1, "test": 0.1}
    given = Counter(assign_roles(made(40), seed=0, fractions=shares).values())  # type: ignore[arg-type]
    assert given["test"] < 10, "shares that are given hold"


@pytest.mark.row("D4")
def test_the_seed_alone_decides() -> None:
    conversations = made(60)
    one = assign_roles(conversations, seed=4)
    shuffled = conversations.copy()
    random.Random(9).shuffle(shuffled)
    assert assign_roles(shuffled, seed=4) == one, "the order of the file does not matter"
    assert assign_roles(conversations, seed=5) != one


def test_roles_decided_by_hand_stay() -> None:
    conversations = made(60)
    fixed = {conversation.id: "test" for conversation in conversations[:20]}
    shares = {"train": 0.6, "dev_a": 0.2, "dev_b": 0.2}
    roles = assign_roles(conversations, seed=0, fractions=shares, fixed=fixed)  # type: ignore[arg-type]
    assert {name for name, role in roles.items() if role == "test"} == set(fixed)
    counts = Counter(roles.values())
    assert all(abs(counts[role] - 40 * share) <= 2 for role, share in shares.items())  # type: ignore[index]


def test_no_role_stays_empty_where_there_is_enough() -> None:
    for number in (4, 5, 6):
        assert set(assign_roles(made(number), seed=2).values()) == set(ROLES)
    assert assign_roles([]) == {}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"fractions": {"train": 0.5, "test": 0.6}}, "shares of the roles are 0.5, 0.6"),
        ({"fractions": {"train": 1.5, "test": -0.5}}, "add up to 1"),
        ({"fractions": {}}, "add up to 1"),
        ({"fractions": {"dev": 1.0}}, "Unknown role 'dev'.*Use: train"),
        ({"fixed": {"c999": "test"}}, "Unknown conversation 'c999'.*Correct the id"),
        ({"fixed": {"c001": "dev"}}, "Unknown role 'dev'.*c001.*Use one of"),
    ],
)
def test_what_cannot_be_split_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(DatasetError, match=message):
        assign_roles(made(8), **arguments)


@pytest.mark.row("D4")
def test_written_splits_are_locked(folder: Path) -> None:
    path = folder / "splits.json"
    before = load_dataset(folder)
    data = json.loads(path.read_text("utf-8"))
    assert (data["seed"], data["sha256"]) == (5, before.splits_fingerprint)
    assert list(data["roles"]) == list(ROLES)
    write_splits(folder, before.roles, seed=5)
    others = before.roles | {"malt": "train"}
    with pytest.raises(DatasetError, match=r"splits are locked.*splits\.json"):
        write_splits(folder, others, seed=5)
    assert json.loads(path.read_text("utf-8")) == data
    write_splits(folder, others, seed=5, replace=True)
    assert load_dataset(folder).roles == others


def test_splits_that_cannot_be_written_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"Cannot write the splits.*splits\.json"):
        write_splits(tmp_path / "nowhere", {"a": "train"})
    with pytest.raises(DatasetError, match="Unknown role 'dev'"):
        write_splits(tmp_path, {"a": "dev"})  # type: ignore[dict-item]


@pytest.mark.row("D4")
def test_written_splits_are_loaded(write: Callable[..., Path], conversations: list[dict[str, Any]]) -> None:
    folder = write(conversations)
    roles = assign_roles([LabelledConversation.model_validate(item) for item in conversations], seed=8)
    write_splits(folder, roles, seed=8)
    assert load_dataset(folder).roles == roles


@pytest.mark.row("D4")
@pytest.mark.parametrize("seed", range(25))
def test_every_flow_with_two_conversations_has_one_in_train(seed: int) -> None:
    generator = random.Random(seed)
    conversations = []
    for n in range(14):
        flows = [f"f{n // 2}"] + ([f"f{generator.randrange(9)}"] if n % 3 == 0 else [])
        turn = {"role": "user", "text": f"text {n}", "labels": {"flows": list(dict.fromkeys(flows))}}
        conversations.append(LabelledConversation.model_validate({"id": f"c{n}", "turns": [turn]}))
    roles = assign_roles(conversations, seed=seed)
    count = Counter(flow for each in conversations for flow in strata(each))
    taught = {flow for each in conversations if roles[each.id] == "train" for flow in strata(each)}
    assert {flow for flow, number in count.items() if number > 1} <= taught
    assert set(roles.values()) == set(ROLES)
    assert roles == assign_roles(conversations[::-1], seed=seed)
