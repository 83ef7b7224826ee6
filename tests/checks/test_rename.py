"""Rename: names carry no answer. All flows, slots and ids are called otherwise, and the scores must stay."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from jazzmine_dspy.artifacts import bind_recall
from jazzmine_dspy.datasets import load_dataset, write_splits
from jazzmine_dspy.eval import evaluate
from jazzmine_dspy.eval.metrics import commands_f1
from jazzmine_dspy.optimize.run import base_of

MOST = 0.05


def renamed_dataset(source: Path, target: Path, seed: int = 0) -> Path:
    """A copy whose flows, slots, conversations and turns have names that mean nothing."""
    chance = random.Random(seed)
    data = yaml.safe_load((source / "flows.yaml").read_text("utf-8"))
    flow_names = [flow["name"] for flow in data["flows"]]
    slot_names = sorted({slot["name"] for flow in data["flows"] for slot in flow.get("slots", ())})
    numbers = chance.sample(range(100, 1000), len(flow_names) + len(slot_names))
    flows = {name: f"task_{number}" for name, number in zip(flow_names, numbers, strict=False)}
    slots = {name: f"value_{n}" for name, n in zip(slot_names, numbers[len(flow_names) :], strict=True)}
    for flow in data["flows"]:
        flow["name"] = flows[flow["name"]]
        for slot in flow.get("slots", ()):
            slot["name"] = slots[slot["name"]]
        flow["confirm"] = ""
        flow.pop("responses", None)

    def label(key: str, value: Any) -> Any:
        if key in ("flow", "intent"):
            return flows.get(value, value)
        if key in ("flows", "paused"):
            return [flows[each] if isinstance(each, str) else renamed(each) for each in value]
        if key in ("awaiting", "slot") or key == "name":
            return slots.get(value, value)
        if key == "slots":
            return {slots[name]: held for name, held in value.items()}
        return value

    def renamed(item: dict[str, Any]) -> dict[str, Any]:
        return {key: label(key, value) for key, value in item.items()}

    roles, lines = {}, []
    known = load_dataset(source).roles
    for number, line in enumerate((source / "conversations.jsonl").read_text("utf-8").splitlines()):
        conversation = json.loads(line)
        roles[f"c{number * 7919 % 1009:04}-{number}"] = known[conversation["id"]]
        conversation["id"] = list(roles)[-1]
        for place, turn in enumerate(conversation["turns"]):
            turn["id"] = f"x{place}"
            if turn.get("before"):
                turn["before"] = renamed(turn["before"])
                if turn["before"].get("confirming"):
                    turn["before"]["confirming"] = renamed(turn["before"]["confirming"])
            if turn.get("labels"):
                turn["labels"] = renamed(turn["labels"])
                commands = turn["labels"].get("commands")
                turn["labels"]["commands"] = [renamed(c) for c in commands] if commands is not None else None
        lines.append(json.dumps(conversation))
    target.mkdir()
    (target / "flows.yaml").write_text(yaml.safe_dump(data, sort_keys=False), "utf-8")
    (target / "conversations.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    write_splits(target, roles)
    return target


def _scores(found: Any, policy: str) -> dict[str, float]:
    shown = evaluate(found.program.with_policy(policy), found.dataset.examples("dev_a", "dev_b"))
    rows = [commands_f1(t.decision, t.example.labels, t.example.turn) or 0.0 for t in shown.turns]
    wanted = ("flow_set_exact", "in_scope_accuracy", "commands_exact", "slot_value_f1", "unchanged_kept")
    return {name: shown.metrics[name].value for name in wanted} | {"commands": sum(rows) / len(rows)}


@pytest.fixture(scope="module")
def renamed(fit: Callable[..., Any], support: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return fit(renamed_dataset(support, tmp_path_factory.mktemp("renamed") / "shop"))


@pytest.mark.long
@pytest.mark.parametrize("policy", ["fallback", "local"])
def test_scores_do_not_hang_on_names(policy: str, fitted_support: Any, renamed: Any) -> None:
    """Guards against figures that are read off names: of flows in messages, of slots in rules, of ids."""
    assert not set(renamed.dataset.flows) & set(fitted_support.dataset.flows)
    before, after = _scores(fitted_support, policy), _scores(renamed, policy)
    assert {name: after[name] - before[name] for name in before if before[name] - after[name] >= MOST} == {}


@pytest.mark.long
def test_flows_never_seen_lose_nothing_to_a_head_that_does_not_know_them(
    fit: Callable[..., Any], embedder: Any, support: Path
) -> None:
    """Guards against a head that knows its flows by heart and stands in the way of new ones.

    Three times five flows are neither in the registry nor in the labels that a program is fitted with, and are added
    afterwards, as by ``load(path, flows=…)``. On dev turns that start them the trained program is less than 5 points
    below the base.
    """
    right, n = {"trained": 0.0, "base": 0.0}, 0
    for draw in (1, 2, 3):
        known = load_dataset(support).flows
        unseen = frozenset(random.Random(draw).sample(sorted(known), 5))
        found = fit(support, change=_without(unseen), unseen=unseen)
        assert not unseen & set(found.head.head.labels)
        bind_recall(found.program.bind(registry=known), embedder)
        examples = [e for e in found.dataset.examples("dev_a", "dev_b") if unseen & _flows(e)]
        n += len(examples)
        for name, program in (("trained", found.program), ("base", base_of(found.program))):
            right[name] += evaluate(program, examples).metrics["in_scope_accuracy"].value * len(examples)
    assert n > 40
    assert right["trained"] > 0
    assert (right["base"] - right["trained"]) / n < MOST, right


def _without(unseen: frozenset[str]) -> Callable[[list[Any]], list[Any]]:
    return lambda train: [example for example in train if not unseen & _flows(example)]


def _flows(example: Any) -> set[str]:
    return set(example.labels.flows or ())
