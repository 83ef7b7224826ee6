"""The first stage of a program on its own: one call, without a flow chosen or a state changed."""

from __future__ import annotations

from typing import Any

from jazzmine_dspy.lm.resolve import as_lm
from jazzmine_dspy.models.decision import Enhancement, StageRecord
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.models.turn import Turn
from jazzmine_dspy.program.gate import without_lm
from jazzmine_dspy.program.policy import FLOOR, Policy
from jazzmine_dspy.program.stage import Steps
from jazzmine_dspy.program.turn import TurnProgram
from jazzmine_dspy.signatures.contract import CONTRACTS, without

_OTHER_STAGES = ("flows", "commands")


def enhance_steps(program: TurnProgram, turn: Turn) -> Steps[tuple[Enhancement, StageRecord]]:
    """The steps of the enhancement alone.

    Args:
        program: Made by :func:`enhancing_program`.
        turn: The message with its history and its snippets.
    """
    if "lm" not in program.policy.orders["enhance"]:
        # Sentiment, topic, entities and intent are read after the commands, so the whole turn is decided.
        decision = yield from program.steps(turn)
        return decision.enhancement, decision.stages["enhance"]
    steps = program._turn_steps
    context = yield from steps.to("enhance", turn)
    return (yield from steps._stage("enhance", context))


def enhancing_program(llm: Any, registry: FlowRegistry | None, history_window: int) -> TurnProgram:
    """A program whose first stage asks a language model for the enhancement.

    Args:
        llm: What :func:`as_lm` takes, or a program. Of a program a copy asks with its compiled prompt: that of the
            enhancement, or in the fused shape the compiled one for all stages with the fields of the enhancement alone.
            Rules leave the message to its language model; a program that asks none reads the message by itself.
        registry: Flows whose names are the closed set of intents, where they are not the program's own.
        history_window: Turns of the user that its prompt shows.

    Raises:
        InputError: ``llm`` is no language model.
    """
    if isinstance(llm, TurnProgram):
        program = llm.with_policy(_alone(llm, history_window))
        return program if registry is None else program.bind(registry=registry)
    lm = as_lm(llm)
    tiny = str(lm.model).startswith("local/")
    policy = Policy(
        shape="staged",
        orders={**FLOOR, "enhance": ("lm", "floor")},
        history_window=history_window,
        wording="brief" if tiny else "full",
    )
    return TurnProgram(registry, policy=policy).bind(lm=lm)


def _alone(program: TurnProgram, history_window: int) -> Policy:
    policy = program.policy
    order = policy.orders["enhance"]
    if "lm" in order:
        order = tuple(kind for kind in order if kind != "rule")
    fused = (
        policy.shape == "fused" and _is_compiled(program, "fused") and not _is_compiled(program, "enhance")
    )
    if "lm" not in order:
        return without_lm(policy).model_copy(update={"history_window": history_window})
    update: dict[str, Any] = {
        "orders": {**policy.orders, "enhance": order},
        "history_window": history_window,
        "shape": "fused" if fused else "staged",
    }
    if fused:
        update["unasked"] = (*policy.unasked, *_OTHER_STAGES)
    return policy.model_copy(update=update)


def _is_compiled(program: TurnProgram, name: str) -> bool:
    """Whether a predictor has demonstrations, or other words than the package's."""
    predictor = program.predictor(name)
    plain = without(name, CONTRACTS[name].signature, program.policy.unasked, program.policy.wording)
    own = predictor.signature
    return bool(predictor.demos) or _words(own) != _words(plain)


def _words(signature: Any) -> list[str]:
    return [
        signature.instructions,
        *(str(field.json_schema_extra["desc"]) for field in signature.fields.values()),
    ]
