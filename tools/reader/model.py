"""The reader: an encoder for texts, a fusion of turn and cards, and heads; the order of cards changes nothing."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import BertModel

from reader.cards import FLAGS, KINDS, TYPES
from reader.draw import ACTS

OPS = ("none", "given", "skip", "add", "remove", "clear", "same")
WIDTH, BIND = 384, 32
N_STATE = 7
N_NEAR = 5


class Layer(nn.Module):
    """Self-attention written out, so that every axis stays free in ONNX."""

    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.drop = nn.Dropout(0.1)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        batch, _, width = x.shape
        q, k, v = (
            self.qkv(self.norm1(x)).view(batch, -1, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        )
        scores = q @ k.transpose(-1, -2) * (width // self.heads) ** -0.5 + mask
        x = x + self.drop(self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, -1, width)))
        return x + self.drop(self.down(nn.functional.gelu(self.up(self.norm2(x)))))


class Reader(nn.Module):
    """Reads one batch of turns over the cards of one registry.

    Args:
        base: Folder of the encoder's weights.
        layers: Layers of the fusion.
    """

    def __init__(self, base: str, layers: int = 3) -> None:
        super().__init__()
        self.encoder = BertModel.from_pretrained(base, add_pooling_layer=False, attn_implementation="sdpa")
        self.kind = nn.Embedding(len(KINDS), WIDTH)
        self.slot_type = nn.Embedding(len(TYPES), WIDTH)
        self.flags = nn.Linear(len(FLAGS), WIDTH, bias=False)
        self.bind = nn.Linear(2 * BIND, WIDTH, bias=False)
        self.part = nn.Embedding(4, WIDTH)
        self.state_in = nn.Linear(N_STATE, WIDTH)
        self.near_in = nn.Linear(N_NEAR, WIDTH, bias=False)
        self.near = nn.Parameter(torch.tensor([3.0, 0.0, 3.0, 3.0, 1.0]))
        self.near_option = nn.Parameter(torch.tensor([0.0, 3.0, 0.0, 0.0, 3.0]))
        self.none = nn.Linear(3 * WIDTH, 1)
        nn.init.zeros_(self.near_in.weight)
        self.summary = nn.Parameter(torch.zeros(WIDTH))
        self.card_in, self.token_in = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.fusion = nn.ModuleList(Layer(WIDTH, 6, 2 * WIDTH) for _ in range(layers))
        self.norm = nn.LayerNorm(WIDTH)
        self.acts = nn.Linear(WIDTH, len(ACTS))
        self.flow = nn.Linear(WIDTH, 4)  # start, resume, cancel, place in the order
        self.op = nn.Linear(WIDTH, len(OPS))
        self.truth, self.option = nn.Linear(WIDTH, 1), nn.Linear(WIDTH, 1)
        self.query, self.key = nn.Linear(WIDTH, 4 * 64), nn.Linear(WIDTH, 4 * 64)

    def encode(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Token states, (n, t, width)."""
        return self.encoder(input_ids=ids, attention_mask=mask).last_hidden_state

    def encode_cards(self, ids: Tensor, mask: Tensor) -> Tensor:
        """One vector a card, (n, width): the mean of its tokens, of unit length."""
        states = self.encode(ids, mask)
        pooled = (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        return nn.functional.normalize(pooled, dim=-1)

    def nearness(self, tokens: Tensor, message: Tensor, cards: Tensor, owns: Tensor) -> Tensor:
        """How near a message is to each card, (b, c, 4): as a whole, by its nearest token, to examples (most, mean)."""
        n = owns.shape[0]
        keep = message[..., None].to(tokens.dtype)
        whole = nn.functional.normalize((tokens * keep).sum(1) / keep.sum(1).clamp(min=1), dim=-1)
        by_token = nn.functional.normalize(tokens, dim=-1) @ cards[:n].T
        nearest = by_token.masked_fill(~message[..., None], -1.0).amax(1)
        every = whole @ cards.T
        given = every[:, n:]
        some = (owns.sum(1) > 0).to(tokens.dtype)
        if given.shape[1]:
            most = (given[:, None, :] - (1 - owns) * 4.0).amax(-1) * some
            mean = given @ (owns / owns.sum(1, keepdim=True).clamp(min=1)).to(tokens.dtype).T
        else:
            most = mean = torch.zeros_like(every[:, :n])
        none = (1 - some) * every[:, :n]
        return torch.stack([every[:, :n], nearest, most + none, mean + none], -1)

    def forward(
        self, tokens: Tensor, token_mask: Tensor, parts: Tensor, cards: Tensor, card_mask: Tensor,
        kinds: Tensor, types: Tensor, flags: Tensor, binds: Tensor, state: Tensor, owns: Tensor, overlap: Tensor,
    ) -> dict[str, Tensor]:  # fmt: skip
        """Logits of all heads.

        Args:
            tokens: Token states of the turns, (b, t, width).
            token_mask: 1 for a token, (b, t).
            parts: 1 message before, 2 the assistant's words, 3 the message, (b, t).
            cards: Card vectors, then those of examples, (c + e, width).
            card_mask: 1 for a card that the turn has, (b, c).
            kinds, types: Places in `KINDS` and `TYPES`, (c).
            flags: (b, c, flags).
            binds: Random vectors of the owners, (b, c, 2 * BIND).
            state: (b, N_STATE).
            owns: 1 where an example is one of a card, (c, e).
            overlap: Share of a card's words that the message has, (b, c).
        """
        x, near = self.fuse(
            tokens, token_mask, parts, cards, card_mask, kinds, types, flags, binds, state, owns, overlap
        )
        n = tokens.shape[1]
        summary, token, card = x[:, 0], x[:, 1 : 1 + n], x[:, 1 + n :]
        batch = x.shape[0]
        q = self.query(card).view(batch, -1, 4, 64).permute(0, 2, 1, 3)
        k = self.key(token).view(batch, -1, 4, 64).permute(0, 2, 3, 1)
        spans = q @ k * 64**-0.5  # (b, 4, c, t): first, last, begin, inside
        said = ((parts == 3) & (token_mask > 0)).to(token.dtype)[..., None]
        count = said.sum(1).clamp(min=1)
        starting = torch.cat([summary, (tokens * said).sum(1) / count, (token * said).sum(1) / count], -1)
        flow = self.flow(card)
        start = flow[..., :1] + (near * self.near).sum(-1, keepdim=True)
        return {
            "acts": self.acts(summary), "none": self.none(starting), "flow": torch.cat([start, flow[..., 1:]], -1),
            "op": self.op(card), "truth": self.truth(card)[..., 0],
            "option": self.option(card)[..., 0] + (near * self.near_option).sum(-1), "spans": spans,
        }  # fmt: skip

    def fuse(
        self, tokens: Tensor, token_mask: Tensor, parts: Tensor, cards: Tensor, card_mask: Tensor,
        kinds: Tensor, types: Tensor, flags: Tensor, binds: Tensor, state: Tensor, owns: Tensor, overlap: Tensor,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """States of summary, tokens and cards, (b, 1 + t + c, width), and nearness of the cards, (b, c, near)."""
        near = self.nearness(tokens, (parts == 3) & (token_mask > 0), cards, owns)
        near = torch.cat([near, overlap[..., None].to(near.dtype)], -1)
        cards = cards[: owns.shape[0]]
        fixed = self.card_in(cards * 8) + self.kind(kinds) + self.slot_type(types)
        card = fixed[None] + self.flags(flags) + self.bind(binds) + self.near_in(near)
        token = self.token_in(tokens) + self.part(parts)
        first = (self.summary + self.state_in(state))[:, None]
        x = torch.cat([first, token, card], 1)
        keep = torch.cat([torch.ones_like(token_mask[:, :1]), token_mask, card_mask], 1)
        mask = (1.0 - keep[:, None, None, :].to(x.dtype)) * -30_000.0
        for layer in self.fusion:
            x = layer(x, mask)
        return self.norm(x), near


def freeze(model: Reader, layers: int) -> None:
    """Freezes the word embeddings and the first layers of the encoder."""
    frozen: list[Any] = [model.encoder.embeddings, *model.encoder.encoder.layer[:layers]]
    for module in frozen:
        for parameter in module.parameters():
            parameter.requires_grad = False
