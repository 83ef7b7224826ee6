"""The gate of a whole turn: from which confidence on no stage asks a language model (C3)."""

from __future__ import annotations

from jazzmine_dspy.models.decision import STAGES, TurnDecision
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.program.bindings import Bindings
from jazzmine_dspy.program.heads.acts.shipped import shipped_head
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.sureness import Sureness, shipped


def without_lm(policy: Policy) -> Policy:
    """The policy of a program that asks no language model, with the head of the commands before the floor.

    Example:
        >>> without_lm(Policy()).orders["understand"]
        ('rule', 'head', 'floor')
    """
    orders = {stage: tuple(kind for kind in policy.orders[stage] if kind != "lm") for stage in STAGES}
    gates = {stage: held for stage, held in policy.gates.items() if stage != "understand"}
    return policy.model_copy(update={"orders": orders, "gates": gates, "sure": None})


def sureness_of(policy: Policy, bindings: Bindings) -> Sureness | None:
    """What tells how sure a turn is without a language model: of the run that compiled the program, else the shipped.

    None where neither is for the heads that are bound.
    """
    if policy.sure is not None:
        return policy.sure
    if "understand" in bindings.heads or "head" in policy.gates.get("understand", {}):
        return None
    head = shipped_head(bindings.embedder)
    made, fitted_for = shipped()
    return made if head is not None and head.fingerprint == fitted_for else None


def in_force(policy: Policy, bindings: Bindings) -> Sureness | None:
    """The same for a program that would ask a language model, and its head of the commands before that; else None."""
    order = policy.orders["understand"]
    asks = bindings.lm_for() is not None and any("lm" in policy.orders[stage] for stage in STAGES)
    first = "head" in order and ("lm" not in order or order.index("head") < order.index("lm"))
    return sureness_of(policy, bindings) if asks and first else None


def keeps(sureness: Sureness, turn: Turn, decision: TurnDecision, registry: FlowRegistry) -> bool:
    """Whether a decision that asked no language model stands, so that none is asked.

    A part that failed is no reason to be sure, whatever the rest says.
    """
    return not decision.degraded and sureness.of(turn, registry, decision) >= sureness.gate
