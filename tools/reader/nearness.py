"""How near a message is to the flow that it wants: a loss for the encoder alone.

Each message is compared with the flows of several domains at once, so that a step sees many wrong flows; those of its
own domain are among them.
"""

from __future__ import annotations

import random
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from reader.base import tokenizer
from reader.cards import spoken
from reader.draw import Drawer
from reader.model import Reader
from reader.recorded import Registry

DOMAINS, EACH, SCALE = 8, 8, 20.0


def flow_text(flow: dict[str, Any], rng: random.Random) -> str:
    """A flow as the reader's cards have it, sometimes shortened."""
    name, about, when = spoken(flow["name"]), flow.get("description", ""), flow.get("condition", "")
    whole = f"{name}: {about} {when}"
    return rng.choice([whole, whole, f"{name}: {about}", f"{about} {when}"])


class Pairs:
    """Draws messages with the flow that each wants, and all flows of their domains.

    Args:
        drawers: Of the invented domains.
        recorded: Recorded registries, which an eighth of the draws are from.
        rng: The source of chance.
    """

    def __init__(self, drawers: list[Drawer], recorded: list[Registry], rng: random.Random) -> None:
        self.drawers, self.rng = drawers, rng
        self.registries: list[tuple[dict[str, Any], dict[str, list[str]]]] = []
        for registry in recorded:
            texts: dict[str, list[str]] = {}
            for turn in registry.turns:
                if len(turn.starts) == 1:
                    texts.setdefault(turn.starts[0], []).append(turn.text)
            self.registries.append((registry.flows, texts))
        self.words = tokenizer()
        self.words.enable_padding()
        self.words.enable_truncation(48)

    def draw(self) -> tuple[list[str], list[int], list[str]]:
        """Messages, the place of the flow that each wants, and texts of all flows."""
        rng = self.rng
        messages: list[str] = []
        wanted: list[int] = []
        flows: list[str] = []
        for _ in range(DOMAINS):
            first = len(flows)
            if self.registries and rng.random() < 0.125:
                definitions, texts = rng.choice(self.registries)
                names = list(definitions)
                for name in rng.choices(list(texts), k=EACH):
                    messages.append(rng.choice(texts[name]))
                    wanted.append(first + names.index(name))
            else:
                drawer = rng.choice(self.drawers)
                definitions, names = drawer.domain.flows, list(drawer.domain.flows)
                drawer.shown = {}
                for drawn in filter(None, (drawer.opening() for _ in range(EACH))):
                    messages.append(drawn.text)
                    wanted.append(first + names.index(drawn.starts[0]))
            for name in names:
                examples = [str(each) for each in definitions[name].get("examples") or []]
                flows.append(
                    rng.choice(examples)
                    if examples and rng.random() < 0.3
                    else flow_text({"name": name, **definitions[name]}, rng)
                )
        return messages, wanted, flows

    def loss(self, model: Reader) -> Tensor:
        """Cross entropy of the wanted flow among all flows of a draw, by the cosine of both vectors."""
        messages, wanted, flows = self.draw()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            near, far = (self._vectors(model, texts).float() for texts in (messages, flows))
        return cross_entropy(SCALE * near @ far.T, torch.tensor(wanted))

    def _vectors(self, model: Reader, texts: list[str]) -> Tensor:
        coded = self.words.encode_batch(texts)
        ids = torch.tensor([each.ids for each in coded])
        return model.encode_cards(
            ids, torch.tensor([each.attention_mask for each in coded], dtype=torch.float32)
        )
