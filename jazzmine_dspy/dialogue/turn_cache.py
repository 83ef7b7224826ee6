"""The beginning of a turn in working memory: what its decision found out."""

from __future__ import annotations

from collections.abc import Mapping

from jazzmine_dspy.memory.working import TurnCache, WorkingMemory
from jazzmine_dspy.models.decision import TurnDecision
from jazzmine_dspy.models.flows import Flow


def turn_cache(
    decision: TurnDecision, registry: Mapping[str, Flow], *, agent_id: str = "", message_id: str = ""
) -> TurnCache:
    """What a decision found out, as working memory keeps it for the turn.

    Selected flows that the registry does not have stand among the unresolved ones.
    """
    found, chosen = decision.enhancement, decision.selection
    flows = [registry[name] for name in chosen.flows if name in registry]
    return TurnCache(
        message_id=message_id,
        enhanced_query=found.enhanced_query,
        intent=found.intent,
        sentiment_score=found.sentiment_score,
        is_continuation=found.is_continuation,
        is_cancellation=found.is_cancellation,
        raw_entities=[entity.model_dump(mode="json") for entity in found.entities],
        combined_flow_prompt="\n\n".join(flow.build_prompt(verbose=False) for flow in flows),
        selected_flow_ids=[flow.id_for(agent_id) for flow in flows],
        unresolved_flow_ids=[name for name in chosen.flows if name not in registry],
        flow_candidates=[
            {"flow_id": registry[name].id_for(agent_id), "flow_name": name, "score": score}
            for name, score in chosen.candidates
            if name in registry
        ],
    )


def continues(state: WorkingMemory, decision: TurnDecision, registry: Mapping[str, Flow]) -> bool:
    """Whether a message is about the yes or no that is open, and has not drifted away from it.

    Answers, a word on a slot or on the flow itself, and the wish to hear the question again are about it; so is
    a message that says nothing new and continues the topic, or asks for time. Everything else lets the question age.
    """
    if decision.pause:
        return True
    running = state.active_flow
    flow = registry.get(running.flow_name) if running is not None else None
    if flow is None or not decision.commands:
        return decision.enhancement.is_continuation
    return any(command.is_about(flow) for command in decision.commands)
