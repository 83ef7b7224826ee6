"""Our flow selector with the installed jazzmine's own flows."""

from __future__ import annotations

from typing import Any

import pytest

import jazzmine_package
from jazzmine_dspy.integrations.jazzmine.agent import JazzmineFlowSelector
from jazzmine_dspy.integrations.jazzmine.flows import to_flow, to_registry
from jazzmine_dspy.lm import scripted_lm


@pytest.fixture(scope="module")
def theirs() -> Any:
    return jazzmine_package.flows().flows


def made(theirs: Any) -> list[Any]:
    track = theirs.Flow("track", "Tell where an order is.", "Always.", ["done"], ["where is it"] * 5, ["crm"])
    cancel = theirs.Flow("cancel", "Cancel an order.", "", ["done"], ["cancel it"] * 5)
    return [track, cancel, theirs.ParallelFlow("both", "Do both.", "", ["do both"] * 5, [track, cancel])]


@pytest.mark.row("F1")
def test_flows_are_read_with_their_parts(theirs: Any) -> None:
    flows = made(theirs)
    registry = to_registry({flow.id: flow for flow in flows}, agent_id="shop")
    assert (list(registry), registry.agent_id) == (["track", "cancel", "both"], "shop")
    track = registry["track"]
    assert (track.condition, track.tools, track.desired_effects) == ("Always.", ("crm",), ("done",))
    assert (registry["both"].kind, registry["both"].subflows) == ("parallel", (track, registry["cancel"]))
    either = to_flow(theirs.ConditionalFlow("either", "One.", "", ["one"] * 5, "x > 1", flows[0], flows[1]))
    assert (either.condition_expr, [part.name for part in either.subflows]) == ("x > 1", ["track", "cancel"])


@pytest.mark.row("F13", "N1")
async def test_what_is_chosen_are_jazzmines_own_flows(theirs: Any) -> None:
    flows = {flow.id: flow for flow in made(theirs)}
    cancel = next(flow for flow in flows.values() if flow.name == "cancel")
    selector = JazzmineFlowSelector(scripted_lm(lambda _: '{"flows": ["A"]}'), flows, agent_id="shop")
    found = [{"flow_id": cancel.id, "flow_name": "renamed since", "score": 0.2}]
    result = await selector.select("stop my order", candidates=found)
    assert [flow is cancel for flow in result.chosen_flows] == [True]
    assert result.combined_prompt == cancel.build_prompt(verbose=False)
