"""An assistant of twenty flows that grows to a thousand: the same messages, by heads trained for each catalogue."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from jazzmine_dspy.memory.procedural import FastembedEmbedder, FlowIndex
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.program.ports import HeadInput
from large_catalogue import catalogue

pytest.importorskip("sklearn")
pytest.importorskip("scipy")

from jazzmine_dspy.optimize.heads.training import HeadRow, train_selection_head

OWN = yaml.safe_load((Path(__file__).parents[2] / "support" / "electricity.yaml").read_text("utf-8"))
LEARNT = [
    (text, name, f"{name}-{number}")
    for name, told in OWN.items()
    for number, text in enumerate(told["learnt"])
]
ASKED = [(text, name) for name, told in OWN.items() for text in told["asked"]]


def right(flows: Sequence[dict[str, Any]], embedder: FastembedEmbedder) -> list[bool]:
    """Whether the head, trained on the labelled messages and on what the flows say of themselves, answers right."""
    registry = FlowRegistry(flows)
    with FlowIndex(registry, embedder, examples=LEARNT) as index:
        rows = [
            HeadRow(text, Turn(text=text), (name,), group, index.recall(text, k=10, exclude=[group]))
            for text, name, group in LEARNT
        ]
        own = [(point.text, point.flow) for point in index.points if not point.conversation]
        made = train_selection_head(
            rows,
            embedder=embedder,
            seed=0,
            examples=own,
            flows=tuple(registry),
            out_of_scope_share=0.0,
            c=3.0,
        )
        found = []
        for text, name in ASKED:
            features = embedder.features([text])[0]
            seen = HeadInput(Turn(text=text), features, index.recall(text, k=10), tuple(registry), [], ())
            found.append(made.head.predict(seen).flows == (name,))
        return found


@pytest.mark.row("F18")
@pytest.mark.long
def test_twenty_flows_are_selected_as_well_among_a_thousand() -> None:
    """Of each flow six messages are learnt and four others asked; the 980 further flows are known by descriptions.

    These are of other trades, so that growing alone is judged. What flows of one trade cost each other, `make
    bench-routing` measures.
    """
    embedder = FastembedEmbedder()
    own = [{"name": name, "description": told["description"]} for name, told in OWN.items()]
    others = [{"name": flow["name"], "description": flow["description"]} for flow in catalogue()]
    among_twenty = right(own, embedder)
    among_thousand = right([*own, *others[: 1000 - len(own)]], embedder)
    assert len(among_twenty) == len(among_thousand) == 80
    print(f"right among 20: {sum(among_twenty)}, among 1,000: {sum(among_thousand)}, of {len(ASKED)}")
    assert sum(among_twenty) >= 0.9 * len(ASKED)
    assert sum(among_thousand) >= sum(among_twenty) - 0.02 * len(ASKED)
