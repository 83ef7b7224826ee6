"""Prints how many turns of a suite a checkpoint decides right: evaluate.py CHECKPOINT SUITE [--only NAME ...]"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "eval" / "benchmarks"))

import torch
from understanding.rehearsal import Staged, decided, judged, staged

from jazzmine_dspy.eval.suite import load_suite
from jazzmine_dspy.models import reading_context
from jazzmine_dspy.models.commands import COMMANDS
from reader.base import base_folder, tokenizer
from reader.batch import Batch, Batcher
from reader.draw import ACTS, Drawn
from reader.model import OPS, Reader
from reader.recorded import drawn_of, flows_of
from reader.train import run


def logits_of(
    model: Reader, batcher: Batcher, flows: dict[str, Any], turns: list[Drawn]
) -> tuple[Batch, dict[str, Any]]:
    """The logits of some turns of one registry."""
    batch = batcher.make(flows, turns, {name: flow["examples"] for name, flow in flows.items()})
    with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16):
        return batch, {key: value.float() for key, value in run(model, batch).items()}


class Decoder:
    """Commands from logits.

    Args:
        registry: The flows.
        batch, logits: As `logits_of` gives them.
        turns: The package's turns, in the order of the batch.
    """

    def __init__(
        self, registry: Any, batch: Batch, logits: dict[str, Any], turns: list[Any], bar: float = 0.5
    ) -> None:
        self.registry, self.batch, self.logits, self.turns, self.bar = registry, batch, logits, turns, bar
        self.flow_places = [(i, card.key) for i, card in enumerate(batch.cards) if card.kind == "flow"]

    def commands(self, i: int) -> list[dict[str, Any]]:
        """The commands of one turn."""
        turn, out = self.turns[i], self.logits
        chance = torch.sigmoid(out["flow"][i, :, :3])
        acts = {
            act for act, p in zip(ACTS, torch.sigmoid(out["acts"][i]).tolist(), strict=True) if p > self.bar
        }
        first = torch.cat(
            [out["none"][i], torch.stack([out["flow"][i, j, 0] for j, _ in self.flow_places])]
        ).softmax(-1)
        best = int(first.argmax())
        chosen = set() if best == 0 else {self.flow_places[best - 1][1]}
        if best:
            chosen |= {
                name
                for n, (j, name) in enumerate(self.flow_places)
                if float(first[n + 1]) > 0.25 and chance[j, 0] > self.bar
            }
        starts = [
            (float(out["flow"][i, j, 3]), name)
            for j, name in self.flow_places
            if name in chosen and name != turn.flow
        ]
        starts.sort(reverse=True)
        resumes = [name for j, name in self.flow_places if chance[j, 1] > self.bar and name in turn.paused]
        cancels = [
            name
            for j, name in self.flow_places
            if chance[j, 2] > self.bar and (name == turn.flow or name in turn.paused)
        ]
        made: list[dict[str, Any]] = [
            {"type": "cancel_flow", "flow": None if name == turn.flow else name} for name in cancels
        ]
        for name in resumes[:1]:
            made += [{"type": "resume_flow", "flow": name}, *self.values(i, name)]
        for _, name in starts[:3]:
            made += [{"type": "start_flow", "flow": name}, *self.values(i, name)]
        running = [] if cancels or not turn.flow else self.values(i, turn.flow)
        if turn.confirming is not None:
            corrected = [c for c in running if c["type"] in ("correct_slot", "clear_slot")]
            if corrected and "affirm" not in acts:
                made.append({"type": "deny", "slot": corrected[0]["name"]})
                acts.discard("deny")
        made += running
        if turn.confirming is not None and "affirm" in acts:
            made.append({"type": "affirm"})
        elif turn.confirming is not None and "deny" in acts and not cancels:
            made.append({"type": "deny"})
        for act in ("ask", "repeat", "restart", "handoff", "out_of_scope", "chitchat"):
            if act in acts and not (act in ("chitchat", "out_of_scope") and made):
                made.append({"type": act, "topic": "it"} if act == "ask" else {"type": act})
        if "clarify" in acts and not made:
            ranked = sorted(self.flow_places, key=lambda pair: -float(out["flow"][i, pair[0], 0]))
            made.append({"type": "clarify", "flows": [name for _, name in ranked[:2]]})
        return made

    def values(self, i: int, flow_name: str) -> list[dict[str, Any]]:
        turn, out, flow = self.turns[i], self.logits, self.registry[flow_name]
        filled = dict(turn.slots) if flow_name == turn.flow else {}
        at = reading_context(self.registry, turn.date, turn.locale)
        made = []
        for j, card in enumerate(self.batch.cards):
            if card.kind != "slot" or card.key.partition(".")[0] != flow_name:
                continue
            slot = flow.slot(card.key.partition(".")[2])
            op = OPS[int(out["op"][i, j].argmax())]
            if op == "none":
                continue
            if op in ("skip", "clear"):
                made.append({"type": f"{op}_slot", "name": slot.name})
                continue
            value = self.value(i, j, slot, at)
            if value is None:
                continue
            if (
                slot.type == "list"
                and op in ("add", "remove")
                and isinstance(filled.get(slot.name), (list, tuple))
            ):
                old = list(filled[slot.name])
                value = (
                    old + value
                    if op == "add"
                    else [v for v in old if v.lower() not in {w.lower() for w in value}]
                )
            if filled.get(slot.name) == value:
                continue
            made.append(
                {
                    "type": "correct_slot" if slot.name in filled else "set_slot",
                    "name": slot.name,
                    "value": value,
                }
            )
        return made

    def value(self, i: int, j: int, slot: Any, at: Any) -> Any:
        out, batch = self.logits, self.batch
        if slot.type == "boolean":
            return bool(out["truth"][i, j] > 0)
        if slot.type == "choice":
            own = [
                (float(out["option"][i, k]), c.key.rpartition("=")[2])
                for k, c in enumerate(batch.cards)
                if c.kind == "option" and c.key.startswith(batch.cards[j].key + "=")
            ]
            return max(own)[1] if own else None
        offsets, text = batch.offsets[i], self.turns[i].text
        message = torch.tensor([z > a for a, z in offsets])
        spans = out["spans"][i, :, j, : len(offsets)].masked_fill(~message, -1e4)
        if slot.type == "list":
            items, k = [], 0
            begins, insides = torch.sigmoid(spans[2]) > 0.5, torch.sigmoid(spans[3]) > 0.5
            while k < len(offsets):
                if begins[k]:
                    z = k
                    while z + 1 < len(offsets) and insides[z + 1] and not begins[z + 1]:
                        z += 1
                    items.append(text[offsets[k][0] : offsets[z][1]])
                    k = z
                k += 1
            if items:
                return items
        score = spans[0][:, None] + spans[1][None, :]
        n = len(offsets)
        far = torch.ones(n, n).triu().bool() & ~torch.ones(n, n).triu(25).bool()
        best = int(score.masked_fill(~far, -1e9).argmax())
        a, z = best // n, best % n
        part = text[offsets[a][0] : offsets[z][1]]
        if slot.type == "list":
            return [part]
        parsed = slot.kind.parse(slot, part, at)
        return part if parsed is None else parsed


def main() -> None:
    """Prints the share of right turns, by registry."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint")
    parser.add_argument("suite")
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--wrong", type=int, default=0, help="print so many wrong turns")
    options = parser.parse_args()
    torch.set_num_threads(1)
    model = Reader(base_folder())
    model.load_state_dict(torch.load(options.checkpoint)["model"])
    model.eval()
    suite = load_suite(options.suite, only=tuple(options.only or ()))
    turns = [each for each in staged(suite) if not options.only or each.conversation.registry in options.only]
    batcher = Batcher(tokenizer())
    decisions: dict[str, Any] = {}
    for name, registry in suite.registries.items():
        flows = flows_of(registry)
        own = [each for each in turns if each.conversation.registry == name]
        for k in range(0, len(own), 32):
            part = own[k : k + 32]
            drawn = [drawn_of(each.turn, registry, name) for each in part]
            batch, logits = logits_of(model, batcher, flows, drawn)
            decoder = Decoder(registry, batch, logits, [each.turn for each in part])
            for i, each in enumerate(part):
                decisions[each.key] = decide(each, decoder.commands(i))
    right = judged(suite, turns, decisions)
    by: dict[str, list[bool]] = {}
    for each in turns:
        by.setdefault(each.conversation.registry, []).append(right[each.key])
        if not right[each.key] and options.wrong > 0:
            options.wrong -= 1
            given = [command.model_dump(exclude_none=True) for command in decisions[each.key].commands]
            print(f"- [{each.turn.flow}/{each.turn.awaiting}] {each.turn.text!r}: {given}")
    for name, rows in by.items():
        print(f"{name}: {sum(rows) / len(rows):.1%} of {len(rows)}")
    rows = [row for each in by.values() for row in each]
    print(f"all: {sum(rows) / len(rows):.1%} of {len(rows)}")


def decide(each: Staged, commands: list[dict[str, Any]]) -> Any:
    """A decision of these commands; those that cannot be are left out."""
    valid = []
    for command in commands:
        try:
            valid.append(COMMANDS.validate_python(command))
        except ValueError:
            continue
    return decided(each.turn, valid)


if __name__ == "__main__":
    main()
