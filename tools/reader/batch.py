"""Batches: the turns of one registry as tensors, with their targets."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from reader.cards import KINDS, TYPES, Card, cards_of, flags_of, overlap_of, state_flags
from reader.draw import ACTS, Drawn
from reader.model import BIND, OPS

MAX_TOKENS, MAX_CARD = 96, 40
CONTEXT = 40  # tokens of the two messages before


@dataclass
class Batch:
    """Tensors of some turns over one registry, and the cards they stand for."""

    cards: list[Card]
    card_ids: Tensor
    card_token_mask: Tensor
    inputs: dict[str, Tensor]
    ids: Tensor
    offsets: list[list[tuple[int, int]]]
    targets: dict[str, Tensor]


def state_of(drawn: Drawn) -> dict[str, Any]:
    """The state before a turn, as the cards show it."""
    return {
        "flow": drawn.flow, "awaiting": drawn.awaiting, "filled": drawn.filled, "paused": drawn.paused,
        "offering": drawn.offering, "confirming": drawn.confirming,
        "finished": drawn.finished[0] if drawn.finished else None,
    }  # fmt: skip


class Batcher:
    """Makes batches with a tokenizer (of the package ``tokenizers``)."""

    def __init__(self, tokenizer: Any, rng: random.Random | None = None) -> None:
        self.tokenizer, self.rng = tokenizer, rng

    def turn_tokens(
        self, previous: str, assistant: str, text: str
    ) -> tuple[list[int], list[int], list[tuple[int, int]]]:
        """Ids, parts and offsets; offsets are those of the message, (0, 0) elsewhere."""
        first = self.tokenizer.encode(previous, add_special_tokens=False).ids[-(CONTEXT // 2) :]
        second = self.tokenizer.encode(assistant, add_special_tokens=False).ids[-CONTEXT:]
        message = self.tokenizer.encode(text, add_special_tokens=False)
        n = MAX_TOKENS - len(first) - len(second) - 4
        ids = [101, *first, 102, *second, 102, *message.ids[:n], 102]
        parts = [1] * (len(first) + 2) + [2] * (len(second) + 1) + [3] * (len(message.ids[:n]) + 1)
        before = len(first) + len(second) + 3
        offsets = [(0, 0)] * before + list(message.offsets[:n]) + [(0, 0)]
        return ids, parts, offsets

    def make(
        self,
        flows: Mapping[str, Mapping[str, Any]],
        turns: Sequence[Drawn],
        examples: Mapping[str, Sequence[str]] | None = None,
    ) -> Batch:
        """A batch; `examples` are messages that want a flow, by its name."""
        rng = self.rng
        cards = cards_of(flows, rng)
        place = {card.key: i for i, card in enumerate(cards)}
        shown = [
            (place[name], text) for name, texts in (examples or {}).items() if name in place for text in texts
        ]
        owns = torch.zeros(len(cards), len(shown))
        for n, (owner, _) in enumerate(shown):
            owns[owner, n] = 1
        coded = [
            self.tokenizer.encode(text).ids[:MAX_CARD]
            for text in [*(card.text for card in cards), *(text for _, text in shown)]
        ]
        card_ids, card_token_mask = _padded(coded)
        rows = [self.turn_tokens(turn.previous, turn.assistant, turn.text) for turn in turns]
        ids, token_mask = _padded([row[0] for row in rows])
        parts, _ = _padded([row[1] for row in rows])
        draw = rng or random.Random(0)
        n_flows, n_slots = len(flows), 1 + max((card.slot for card in cards), default=0)
        generator = torch.Generator().manual_seed(draw.randrange(1 << 30))
        b, c = len(turns), len(cards)
        by_flow = torch.randn(b, n_flows, BIND, generator=generator)
        by_slot = torch.randn(b, n_slots + 1, BIND, generator=generator)
        by_slot[:, -1] = 0
        binds = torch.cat(
            [by_flow[:, [card.flow for card in cards]], by_slot[:, [card.slot for card in cards]]], -1
        )
        inputs = {
            "owns": owns, "overlap": torch.tensor([overlap_of(cards, turn.text) for turn in turns]),
            "token_mask": token_mask, "parts": parts, "card_mask": torch.ones(b, c),
            "kinds": torch.tensor([KINDS.index(card.kind) for card in cards]),
            "types": torch.tensor([TYPES.index(card.type) if card.type in TYPES else 1 for card in cards]),
            "flags": torch.tensor([flags_of(cards, state_of(turn)) for turn in turns], dtype=torch.float32),
            "binds": binds, "state": torch.tensor([state_flags(state_of(turn)) for turn in turns], dtype=torch.float32),
        }  # fmt: skip
        targets = self._targets(turns, cards, place, rows, ids.shape[1])
        if rng is not None:
            self._hide(turns, cards, inputs["card_mask"], targets)
        return Batch(cards, card_ids, card_token_mask, inputs, ids, [row[2] for row in rows], targets)

    def _hide(
        self, turns: Sequence[Drawn], cards: list[Card], mask: Tensor, targets: dict[str, Tensor]
    ) -> None:
        """Hides some flows from a turn: mostly others than the right ones, sometimes the right one."""
        assert self.rng is not None
        names = [card.key for card in cards if card.kind == "flow"]
        for i, turn in enumerate(turns):
            needed = {*turn.starts, *turn.cancels, *turn.resumes, *turn.paused, turn.flow, turn.offering}
            if turn.finished:
                needed.add(turn.finished[0])
            chance = self.rng.random()
            hidden: set[str] = set()
            if chance < 0.35:
                others = [name for name in names if name not in needed]
                hidden = set(self.rng.sample(others, self.rng.randint(0, len(others))))
            elif (
                chance < 0.47
                and len(turn.starts) == 1
                and turn.kind in ("opening", "fix")
                and turn.flow is None
            ):
                hidden = set(turn.starts)
                targets["acts_mask"][i] = 0
            if hidden:
                for j, card in enumerate(cards):
                    if card.key.partition(".")[0] in hidden:
                        mask[i, j] = 0

    def _targets(
        self,
        turns: Sequence[Drawn],
        cards: list[Card],
        place: dict[str, int],
        rows: Sequence[Any],
        width: int,
    ) -> dict[str, Tensor]:
        b, c = len(turns), len(cards)
        acts, acts_mask = torch.zeros(b, len(ACTS)), torch.ones(b, len(ACTS))
        flow, op = torch.zeros(b, c, 3), torch.zeros(b, c, dtype=torch.long)
        first, last = torch.full((b, c), -100), torch.full((b, c), -100)
        begin, inside = torch.zeros(b, c, width), torch.zeros(b, c, width)
        tagged = torch.zeros(b, c)
        truth, option = torch.full((b, c), -100.0), torch.full((b, c), -100)
        order = torch.full((b, 2), -1)
        for i, (turn, row) in enumerate(zip(turns, rows, strict=True)):
            for act in turn.acts:
                acts[i, ACTS.index(act)] = 1
            for act in turn.unlabelled:
                acts_mask[i, ACTS.index(act)] = 0
            for n, names in enumerate((turn.starts, turn.resumes, turn.cancels)):
                for name in names:
                    flow[i, place[name], n] = 1
            if not turn.values_known:
                op[i] = -100
            if len(turn.starts) == 2:
                order[i] = torch.tensor([place[name] for name in turn.starts])
            for key, label in turn.slots.items():
                j = place.get(key)
                if j is None:
                    continue
                op[i, j] = OPS.index(label.op)
                if label.op in ("skip", "clear", "same"):
                    continue
                if cards[j].type == "boolean" and label.truth is not None:
                    truth[i, j] = float(label.truth)
                elif cards[j].type == "choice" and label.option is not None:
                    option[i, j] = place.get(f"{key}={label.option}", -100)
                else:
                    spans = [found for span in label.spans if (found := _tokens(row[2], span)) is not None]
                    if spans and cards[j].type == "list":
                        tagged[i, j] = 1
                        for a, z in spans:
                            begin[i, j, a] = 1
                            inside[i, j, a + 1 : z + 1] = 1
                    elif spans:
                        first[i, j], last[i, j] = spans[0]
        return {
            "acts": acts, "acts_mask": acts_mask, "flow": flow, "op": op, "first": first, "last": last,
            "begin": begin, "inside": inside, "tagged": tagged, "truth": truth, "option": option, "order": order,
        }  # fmt: skip


def _tokens(offsets: Sequence[tuple[int, int]], span: tuple[int, int]) -> tuple[int, int] | None:
    inside = [i for i, (a, z) in enumerate(offsets) if z > a and a < span[1] and z > span[0]]
    return (inside[0], inside[-1]) if inside else None


def _padded(rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    width = max(map(len, rows))
    ids = torch.tensor([[*row, *[0] * (width - len(row))] for row in rows])
    mask = torch.tensor([[1.0] * len(row) + [0.0] * (width - len(row)) for row in rows])
    return ids, mask
