"""The trained network of the reader: two ONNX graphs in 8 bits, and its heads as matrices."""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jazzmine_dspy.models import Flow, FlowRegistry, Turn
from jazzmine_dspy.models.errors import EmbeddingError
from jazzmine_dspy.models.language import words

KINDS = ("flow", "slot", "option")
TYPES = (
    "", "text", "number", "money", "date", "time", "duration", "phone", "email", "boolean", "choice", "list",
)  # fmt: skip

_WORD = re.compile(r"[^\W_]+")
_EMPTY = words("a an the of for to in on at is it i my me we you your be with and or by this that")


class Card(NamedTuple):
    """One thing that a message may be about.

    Args:
        kind: One of :data:`KINDS`.
        text: What the encoder reads.
        flow, slot, option: Names; empty if the card has none.
        type: Type of the slot, also of the slot of an option.
        required: Whether the card is a required slot.
    """

    kind: str
    text: str
    flow: str
    slot: str = ""
    option: str = ""
    type: str = ""
    required: bool = False


def cards_of(flow: Flow) -> list[Card]:
    """The cards of a flow: its own, then those of each slot and the options of the slot."""
    cards = [Card("flow", f"{spoken(flow.name)}: {flow.description} {flow.condition}", flow.name)]
    for slot in flow.slots:
        text = f"{spoken(slot.name)}: {slot.description}"
        cards.append(Card("slot", text, flow.name, slot.name, type=slot.type, required=slot.required))
        for option in slot.options:
            cards.append(Card("option", spoken(option), flow.name, slot.name, option, slot.type))
    return cards


def spoken(name: str) -> str:
    """A name as words.

    Example:
        >>> spoken("book_vetVisit")
        'book vet visit'
    """
    spaced = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name)
    return " ".join(spaced.replace("_", " ").replace("-", " ").split())


def stems(text: str) -> frozenset[str]:
    """The words of a text by their first five letters, without the commonest."""
    return frozenset(word[:5] for word in _WORD.findall(text.lower()) if word not in _EMPTY)


def overlaps(cards: Sequence[Card], text: str) -> list[float]:
    """Share of the words of each card's name or option that a text has."""
    heard = stems(text)
    names = [stems(card.text.partition(":")[0]) for card in cards]
    return [len(name & heard) / len(name) if name else 0.0 for name in names]


def card_flags(cards: Sequence[Card], turn: Turn, finished: str | None = None) -> list[list[float]]:
    """The flags of each card: running, paused, offered, finished, awaited, filled, required, confirmed, free."""
    rows = []
    for card in cards:
        runs = card.flow == turn.flow
        awaited = runs and bool(card.slot) and card.slot == turn.awaiting
        filled = runs and bool(card.slot) and card.slot in turn.slots.names
        row = (
            runs, card.flow in turn.paused, card.flow == turn.offering, card.flow == finished, awaited, filled,
            card.required, runs and turn.confirming is not None,
            runs and card.kind == "slot" and not filled and not awaited,
        )  # fmt: skip
        rows.append([float(flag) for flag in row])
    return rows


Array = NDArray[np.float32]

ACTS = (
    "affirm", "deny", "ask", "repeat", "restart", "chitchat", "handoff", "out_of_scope", "clarify", "pause",
)  # fmt: skip
CLARIFY = ACTS.index("clarify")
START, RESUME, CANCEL, ORDER = range(4)
"""Columns of ``Logits.flow``."""
OPS = ("none", "given", "skip", "add", "remove", "clear", "same")
HASHES = {
    "encoder.onnx": "023654289be746b51e341c3e0f6e7133e59bede7e87201efddb810e82003a894",
    "fusion.onnx": "c56d9071e49387238901dee0a77e2f407e4e942902101964245ca58cbbf104a6",
    "heads.safetensors": "1f1d77c544c6fc9a2a90567285f3ce96f6f6c491270b8c20aaca99c0461bf70e",
}
"""SHA-256 of the files of the weights."""

_WIDTH, _BIND = 384, 32
_MAX_TOKENS, _MAX_CARD, _CONTEXT = 96, 40, 40
_EXAMPLES = 4
_CLS, _SEP = 101, 102
_REMEMBERED = 2048
"""Flows whose vectors are remembered: about 15 kB each."""


class _Known(NamedTuple):
    """A flow as the network sees it: its cards, their vectors (c, 384), those of examples (e, 384), and (c, 64)."""

    cards: list[Card]
    vectors: Array
    examples: Array
    binds: Array


class Logits(NamedTuple):
    """What the heads say of one turn; rows follow the cards.

    Args:
        cards: The cards of the flows.
        acts: Of :data:`ACTS`, (10,).
        none: Of no flow being started.
        flow: Of each card, (c, 4): whether it starts, resumes, is cancelled, and its place in the order.
        op: Of :data:`OPS`, (c, 7).
        truth, option: (c,).
        spans: First, last, begin, inside by card and token of the message, (4, c, t).
        offsets: Characters of those tokens.
        starting: States of the turn, and means of the encoder's and the fused states of the message, (1152,): they tell
            whether it starts any flow.
        message: The encoder's mean, of length 1, (384,).
        states, near: Of each card: its state, (c, 384), and how near the message is to it, (c, 5).
    """

    cards: list[Card]
    acts: Array
    none: float
    flow: Array
    op: Array
    truth: Array
    option: Array
    spans: Array
    offsets: list[tuple[int, int]]
    starting: Array
    message: Array
    states: Array
    near: Array

    def shares(self, op: str) -> Array:
        """The probability of one of :data:`OPS`, by card, (c,)."""
        odds = np.exp(self.op - self.op.max(axis=1, keepdims=True))
        return np.asarray(odds[:, OPS.index(op)] / odds.sum(axis=1))


class Network:
    """Reads turns. It loads its files at once; threads may share it.

    Args:
        folder: Folder of the weights.
        tokenizer: File of the tokenizer of all-MiniLM-L6-v2.
        hashes: SHA-256 of each file of the weights.

    Raises:
        EmbeddingError: a file is missing or is not the expected one.
    """

    def __init__(self, folder: Path, tokenizer: Path, hashes: dict[str, str] = HASHES) -> None:
        import onnxruntime
        from safetensors.numpy import load
        from tokenizers import Tokenizer

        contents = {}
        for name, expected in hashes.items():
            content = (folder / name).read_bytes() if (folder / name).is_file() else b""
            if hashlib.sha256(content).hexdigest() != expected:
                raise EmbeddingError(
                    "A file of the reader is missing, or is not the one of this version",
                    where=str(folder / name),
                    remedy="Install the package again.",
                )
            contents[name] = content
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._encoder, self._fusion = (
            onnxruntime.InferenceSession(contents[name], options, providers=["CPUExecutionProvider"])
            for name in ("encoder.onnx", "fusion.onnx")
        )
        self._heads: dict[str, Array] = load(contents["heads.safetensors"])
        self._tokenizer: Any = Tokenizer.from_file(str(tokenizer))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._known: dict[tuple[str, str], _Known] = {}

    def read(
        self, turn: Turn, registry: FlowRegistry, names: Sequence[str], finished: str | None = None
    ) -> Logits:
        """Read a turn over at least one flow of a registry, of which one may have finished. Order does not matter."""
        known = [self._flow(registry, name) for name in names]
        cards = [card for each in known for card in each.cards]
        shown = np.concatenate([*(each.examples for each in known), np.zeros((1, _WIDTH), np.float32)])
        owns = np.zeros((len(cards), len(shown)), np.float32)
        row = column = 0
        for each in known:
            owns[row, column : column + len(each.examples)] = 1.0
            row, column = row + len(each.cards), column + len(each.examples)
        # A flow runs, asks, confirms, is offered, is paused, has finished; nothing runs or is paused.
        state = (
            turn.flow, turn.awaiting, turn.confirming is not None, turn.offering, turn.paused,
            finished is not None, not turn.flow and not turn.paused,
        )  # fmt: skip
        last = {str(each.role): each.text for each in turn.history}
        first, second = (
            self._tokenizer.encode(last.get(role, ""), add_special_tokens=False).ids[-most:]
            for role, most in (("user", _CONTEXT // 2), ("assistant", _CONTEXT))
        )
        message = self._tokenizer.encode(turn.text, add_special_tokens=False)
        room = _MAX_TOKENS - len(first) - len(second) - 4
        own, offsets = message.ids[:room], [*message.offsets[:room], (0, 0)]
        ids = [_CLS, *first, _SEP, *second, _SEP, *own, _SEP]
        parts = [1] * (len(first) + 2) + [2] * (len(second) + 1) + [3] * len(offsets)
        before, begin = self._states(ids), len(ids) - len(offsets)
        fused, near = self._fusion.run(
            None,
            {
                "tokens": before,
                "token_mask": np.ones((1, len(ids)), np.float32),
                "parts": np.array([parts]),
                "cards": np.concatenate([*(each.vectors for each in known), shown]),
                "card_mask": np.ones((1, len(cards)), np.float32),
                "kinds": np.array([KINDS.index(card.kind) for card in cards]),
                "types": np.array([TYPES.index(card.type) if card.type in TYPES else 1 for card in cards]),
                "flags": np.array([card_flags(cards, turn, finished)], np.float32),
                "binds": np.concatenate([each.binds for each in known])[None],
                "state": np.array([[bool(flag) for flag in state]], np.float32),
                "owns": owns,
                "overlap": np.array([overlaps(cards, turn.text)], np.float32),
            },
        )
        near, summary = near[0], fused[0, 0]
        tokens, states = fused[0, 1 + begin : 1 + len(ids)], fused[0, 1 + len(ids) :]
        mean = before[0, begin:].mean(0)
        starting = np.concatenate([summary, mean, tokens.mean(0)])
        query = self._head("query", states).reshape(len(cards), 4, 64).transpose(1, 0, 2)
        key = self._head("key", tokens).reshape(len(tokens), 4, 64).transpose(1, 2, 0)
        flow = self._head("flow", states)
        flow[:, START] += near @ self._heads["near"]
        return Logits(
            cards=cards,
            acts=self._head("acts", summary),
            none=float(self._head("none", starting)[0]),
            flow=flow,
            op=self._head("op", states),
            truth=self._head("truth", states)[:, 0],
            option=self._head("option", states)[:, 0] + near @ self._heads["near_option"],
            spans=query @ key / 8.0,
            offsets=offsets,
            starting=starting,
            message=np.asarray(mean / max(float(np.linalg.norm(mean)), 1e-12)),
            states=states,
            near=near,
        )

    def _flow(self, registry: FlowRegistry, name: str) -> _Known:
        """A flow as the network sees it, computed once."""
        key = (registry.checksum, name)
        if (found := self._known.get(key)) is None:
            flow = registry[name]
            cards = cards_of(flow)
            binds = [np.hstack([_drawn(card.flow), _drawn(f"{card.flow}.{card.slot}")]) for card in cards]
            binds[0][_BIND:] = 0.0
            vectors = [self._vector(card.text) for card in cards]
            examples = [self._vector(text) for text in flow.examples[:_EXAMPLES]]
            shown = np.array(examples, np.float32).reshape(-1, _WIDTH)
            found = _Known(cards, np.stack(vectors), shown, np.stack(binds))
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[key] = found
        return found

    def _vector(self, text: str) -> Array:
        mean = self._states(self._tokenizer.encode(text).ids[:_MAX_CARD])[0].mean(0)
        return np.asarray(mean / max(float(np.linalg.norm(mean)), 1e-12))

    def _head(self, name: str, states: Array) -> Array:
        return np.asarray(states @ self._heads[f"{name}.weight"].T + self._heads[f"{name}.bias"])

    def _states(self, ids: Sequence[int]) -> Array:
        inputs = {"ids": np.array([ids]), "mask": np.ones((1, len(ids)), np.float32)}
        return np.asarray(self._encoder.run(None, inputs)[0])


def _drawn(name: str) -> Array:
    """The random vector of a name: the network tells owners apart by it, wherever they stand."""
    return np.random.default_rng(zlib.crc32(name.encode())).standard_normal(_BIND).astype(np.float32)


@lru_cache(maxsize=1)
def shipped_network(tokenizer: Path, process: int) -> Network:
    """The network of the package, loaded at the first call of a process: 0.2 s.

    Args:
        tokenizer: File of the tokenizer of all-MiniLM-L6-v2.
        process: Id of the process.

    Raises:
        EmbeddingError: a file is missing or is not the expected one.
    """
    del process
    return Network(Path(__file__).parent, tokenizer)
