"""The race on dev-B: a source ships for a stage only where the whole program surely does better with it.

Each function takes what stands and returns what stands afterwards; the program with its orders and gates is derived
from it, and nothing is changed in place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from jazzmine_dspy.artifacts import BASE
from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.evaluation import Evaluation
from jazzmine_dspy.models.decision import STAGES, SourceKind, Stage
from jazzmine_dspy.optimize.calibration.order import Ordered
from jazzmine_dspy.optimize.context import COMPILE_TIME, RACE_TIME, RunContext
from jazzmine_dspy.optimize.optimizers.registry import calls_per_turn, with_states
from jazzmine_dspy.optimize.pipeline.added import orders_of
from jazzmine_dspy.optimize.pipeline.heats import MARGIN, SURE, Entry, Heat, mean_stage_scores, run_heat
from jazzmine_dspy.optimize.pipeline.measure import asking_all, evaluate_within
from jazzmine_dspy.optimize.pipeline.prompts import PromptsFit, Tried
from jazzmine_dspy.optimize.pipeline.rows import collect_rows
from jazzmine_dspy.optimize.pipeline.selection import SelectionFit
from jazzmine_dspy.optimize.pipeline.synthetic_oos import synthetic_oos
from jazzmine_dspy.program.policy import FLOOR, Policy
from jazzmine_dspy.program.prompts import States
from jazzmine_dspy.program.turn import TurnProgram

LM_ORDER: tuple[SourceKind, ...] = ("rule", "lm", "floor")
HEAD_ORDER: tuple[SourceKind, ...] = ("rule", "head", "floor")


class LanguageModel(NamedTuple):
    """The language model as it races: its name, its prompts, and how it alone did on a sample of dev-B.

    Args:
        name: "LM compiled" or "LM uncompiled".
        tried: The candidate whose prompts it has.
        evaluation: Of the program that asks it in every stage.
        heat: Compiled against uncompiled; None where only one of them ran.
    """

    name: str
    tried: Tried
    evaluation: Evaluation
    heat: Heat | None = None

    @property
    def states(self) -> States:
        """The whole state of its predictors."""
        return self.tried.candidate.states

    @property
    def examples(self) -> list[Example]:
        """The turns on which it was asked."""
        return [turn.example for turn in self.evaluation.turns]


@dataclass(frozen=True)
class Standing:
    """What stands in the race so far.

    Args:
        orders: The order of the sources, by stage.
        names: The name of the winner so far, by stage.
        evaluation: How the whole program did on dev-B, or on the part of it on which the language model was asked.
        gates: The confidence that sources need, by stage.
        heats: All heats that were run.
    """

    orders: Mapping[Stage, tuple[SourceKind, ...]]
    names: Mapping[Stage, str]
    evaluation: Evaluation
    gates: Mapping[Stage, Mapping[SourceKind, float]] = field(default_factory=dict)
    heats: tuple[Heat, ...] = ()

    def policy(self, policy: Policy) -> Policy:
        """A policy with these orders and gates."""
        gates = {stage: dict(held) for stage, held in self.gates.items() if held}
        return policy.model_copy(update={"orders": dict(self.orders), "gates": gates})

    @property
    def all_floors(self) -> bool:
        """Whether nothing beat the floors."""
        # By the orders: an order of the recipe can drop the rules and be called "floor" too.
        return dict(self.orders) == FLOOR

    @property
    def base_ships(self) -> bool:
        """Whether nothing that was compiled ships."""
        return self.all_floors or set(self.names.values()) == {BASE}


class Challenger(NamedTuple):
    """Sources that could take one stage or several.

    Args:
        name: Names the winner of these stages if it wins.
        orders: The order of the sources, by stage.
        gates: The confidence that the sources need in these stages.
        shown_as: The name in the heat, where it differs.
    """

    name: str
    orders: Mapping[Stage, tuple[SourceKind, ...]]
    gates: Mapping[SourceKind, float]
    shown_as: str = ""


def start(context: RunContext, program: TurnProgram, dev_b: Sequence[Example]) -> Standing:
    """The floors stand in every stage at first."""
    floors = program.with_policy("floor")
    found = evaluate_within(context, "race on dev-B", floors, dev_b)
    assert found is not None, "the floors need no budget"
    return Standing(FLOOR, dict.fromkeys(STAGES, "floor"), found)


def race_prompts(context: RunContext, prompts: PromptsFit, dev_b: Sequence[Example]) -> LanguageModel | None:
    """Race compiled against uncompiled prompts over whole turns; None where no language model can be asked."""
    uncompiled, best = prompts.uncompiled, prompts.best
    if context.lm is None or uncompiled is None or best is None:
        return None
    keep = context.calls_kept(race=False)
    programs = 1 if best is uncompiled else 2
    wanted = context.recipe.sample.dev_b or len(dev_b)
    size = context.affordable(wanted, context.calls_per_turn * programs, keep_calls=keep)
    if not size:
        context.progress.note("the budget leaves no call for the race: no language model ships")
        return None
    sample = context.sample(dev_b, size, salt=2)
    half = COMPILE_TIME + (RACE_TIME - COMPILE_TIME) / 2

    def measured(name: str, tried: Tried, time: float) -> Evaluation | None:
        return evaluate_within(
            context, f"race: {name}", tried.program, sample, judge_lm=True, keep_calls=keep, time=time,
            best=best.score,
        )  # fmt: skip

    with asking_all() as ask:
        plain = ask(lambda: measured("LM uncompiled", uncompiled, half))
        compiled = None
        if best is not uncompiled and (plain is not None or ask.awaited):
            compiled = ask(lambda: measured("LM compiled", best, RACE_TIME))
    if plain is None:
        return None
    if compiled is None:
        return LanguageModel("LM uncompiled", uncompiled, plain)
    ours, theirs = Entry("LM compiled", compiled), Entry("LM uncompiled", plain)
    heat = run_heat("all", ours, theirs, context.objective)
    if heat is not None and heat.won:
        return LanguageModel("LM compiled", best, compiled, heat)
    return LanguageModel("LM uncompiled", uncompiled, plain, heat)


def race_enhance(
    context: RunContext, program: TurnProgram, standing: Standing, lm: LanguageModel | None
) -> Standing:
    """Race the language model for the rewrite."""
    if lm is None:
        return standing
    challenger = Challenger(lm.name, {"enhance": LM_ORDER}, {})
    return _race(context, program, standing, "enhance", challenger, lm)


def again(
    context: RunContext, program: TurnProgram, standing: Standing, lm: LanguageModel | None
) -> Standing:
    """What stands, measured once more with the program that was fitted for it."""
    whole = program.with_policy(standing.policy(program.policy))
    found = _measured(context, whole, standing, "fitted again", "all stages", lm)
    return standing if found is None else replace(standing, evaluation=found)


def race_select(
    context: RunContext,
    program: TurnProgram,
    standing: Standing,
    selection: SelectionFit,
    with_lm: Ordered | None,
    lm: LanguageModel | None,
) -> Standing:
    """Race the head, head and language model together, and the language model alone for the flows, the cheapest first.

    Args:
        context: Of the run.
        program: With the head bound, the fitted thresholds and the prompts that race.
        standing: What stands so far.
        selection: What was fitted under the order of the rewrite that stands.
        with_lm: The order of head and language model together.
        lm: The language model.
    """
    if selection.order is not None:
        challenger = Challenger("head", {"select": HEAD_ORDER}, _head_gate(selection.order.gate))
        standing = _race(context, program, standing, "select", challenger, lm, selection)
    if lm is None:
        return standing
    if with_lm is not None and {"head", "lm"} <= set(with_lm.sources):
        order: tuple[SourceKind, ...] = ("rule", *with_lm.sources)
        both = Challenger("head, then LM", {"select": order}, _head_gate(with_lm.gate))
        standing = _race(context, program, standing, "select", both, lm)
    return _race(context, program, standing, "select", Challenger(lm.name, {"select": LM_ORDER}, {}), lm)


def race_understand(
    context: RunContext, program: TurnProgram, standing: Standing, lm: LanguageModel | None
) -> Standing:
    """Race the language model for the commands: alone, and where that is not enough together with the flows."""
    if lm is None:
        return standing
    alone = Challenger(lm.name, {"understand": LM_ORDER}, {})
    standing = _race(context, program, standing, "understand", alone, lm)
    asks = [stage for stage in ("select", "understand") if "lm" in standing.orders[stage]]
    if len(asks) == 2:
        return standing
    orders: dict[Stage, tuple[SourceKind, ...]] = {"select": LM_ORDER, "understand": LM_ORDER}
    together = Challenger(lm.name, orders, {}, f"{lm.name}, flows and commands")
    return _race(context, program, standing, "understand", together, lm)


def race_added(
    context: RunContext,
    program: TurnProgram,
    standing: Standing,
    stage: Stage,
    lm: LanguageModel | None,
    gates: Sequence[Ordered | None] = (),
    allowed: Callable[[str, tuple[SourceKind, ...]], bool] = lambda _name, _order: True,
) -> Standing:
    """Race the orders that the recipe names for a stage, and the heads that it has trained.

    Args:
        context: Of the run.
        program: With the heads bound, and the prompts that race.
        standing: What stands so far.
        stage: The stage.
        lm: The language model; orders that name it do not race where it is None.
        gates: Orders with the gate of our head, the preferred first: an order that holds their sources takes the gate.
        allowed: Whether an order may race, by its name and sources.
    """
    for name, order in orders_of(context.recipe, stage):
        if "lm" in order and lm is None:
            context.progress.note(f"{name} does not race for {stage}: no language model can be asked")
        elif allowed(name, order):
            ours = stage == "select" and "head" in order and stage not in context.recipe.heads
            fitted = [
                each for each in gates if each and "head" in each.sources and set(each.sources) <= set(order)
            ]
            gate = _head_gate(fitted[0].gate) if ours and fitted else {}
            standing = _race(context, program, standing, stage, Challenger(name, {stage: order}, gate), lm)
    return standing


def to_floors(standing: Standing, floors: Evaluation) -> Standing:
    """Put the floors back in every stage; the heats that were run stay on record."""
    return Standing(FLOOR, dict.fromkeys(STAGES, "floor"), floors, heats=standing.heats)


def trust(floors: Evaluation, lm: LanguageModel | None) -> dict[Stage, dict[SourceKind, float]]:
    """How far floor and language model were right on dev-B, by stage."""
    found: dict[Stage, dict[SourceKind, float]] = {
        stage: {"floor": round(value, 4)} for stage, value in mean_stage_scores(floors).items()
    }
    if lm is not None:
        for stage, value in mean_stage_scores(lm.evaluation).items():
            found.setdefault(stage, {})["lm"] = round(value, 4)
    return found


def _head_gate(gate: float) -> dict[SourceKind, float]:
    return {"head": round(gate, 6)}


def _race(
    context: RunContext,
    program: TurnProgram,
    standing: Standing,
    stage: Stage,
    challenger: Challenger,
    lm: LanguageModel | None,
    selection: SelectionFit | None = None,
) -> Standing:
    """Run one challenger, within the whole program, against what stands in a stage."""
    return race_one(context, program, standing, stage, challenger, lm, selection)[0]


def race_one(
    context: RunContext,
    program: TurnProgram,
    standing: Standing,
    stage: Stage,
    challenger: Challenger,
    lm: LanguageModel | None,
    selection: SelectionFit | None = None,
) -> tuple[Standing, Evaluation | None]:
    """Run one challenger; also how it did, None where it did not run."""
    orders = {**standing.orders, **challenger.orders}
    if orders == dict(standing.orders):
        return standing, None
    gates = {**standing.gates, **dict.fromkeys(challenger.orders, challenger.gates)}
    mixed = replace(standing, orders=orders, gates=gates)
    whole = program.with_policy(mixed.policy(program.policy))
    evaluation = _measured(context, whole, standing, challenger.shown_as or challenger.name, stage, lm)
    if evaluation is None:
        return standing, None
    ours = Entry(challenger.shown_as or challenger.name, evaluation)
    theirs = Entry(standing.names[stage], standing.evaluation)
    if selection is not None:
        ours, theirs = _with_evidence(context, program, selection, ours, theirs)
    asks = any("lm" in order for order in challenger.orders.values())
    heat = run_heat(
        stage,
        ours,
        theirs,
        context.objective,
        least=SURE if asks and context.recipe.prefer != "quality" else -MARGIN,
    )
    if heat is None:
        return standing, evaluation
    heats = (*standing.heats, heat)
    if not heat.won:
        return replace(standing, heats=heats), evaluation
    names = {**standing.names, **dict.fromkeys(challenger.orders, challenger.name)}
    return replace(mixed, names=names, evaluation=evaluation, heats=heats), evaluation


def _measured(
    context: RunContext,
    whole: TurnProgram,
    standing: Standing,
    name: str,
    stage: str,
    lm: LanguageModel | None,
) -> Evaluation | None:
    turns = [turn.example for turn in standing.evaluation.turns]
    asks = calls_per_turn(whole) > 0
    if asks:
        assert lm is not None, "who asks the language model has one"
        asked = {example.key for example in lm.examples}
        turns = [example for example in turns if example.key in asked]
    if not turns:
        return None
    return evaluate_within(
        context,
        f"race: {name} for {stage}",
        whole,
        turns,
        judge_lm=asks,
        asked_before=_asked_before(whole),
        keep_calls=context.calls_kept(race=False),
        time=RACE_TIME,
    )


def _asked_before(whole: TurnProgram) -> bool:
    """Whether the prompts of a program were asked when the language model had all stages: so they cost nothing.

    In the fused shape one prompt is for all stages. It changes where another source chooses the flows first: what they
    ask for, and the candidates, are in the prompt that the commands are then asked with.
    """
    orders = whole.policy.orders
    choosing = [kind for kind in orders["select"] if kind != "rule"]
    return whole.shape == "fused" and ("lm" not in orders["understand"] or choosing[0] == "lm")


def _with_evidence(
    context: RunContext, program: TurnProgram, selection: SelectionFit, head: Entry, floor: Entry
) -> tuple[Entry, Entry]:
    """Head and floor with their scores on training turns that the head had not seen, and on synthetic ones of dev-B."""
    assert selection.order is not None, "no order was fitted"
    assert selection.head is not None, "no head was trained"
    ours, theirs = selection.unseen(context)
    with context.asking():
        rows = collect_rows(program, [turn.example for turn in head.evaluation.turns])
        found = synthetic_oos(program, rows, selection.head, seed=context.recipe.seed)
    refusals = [each.verdict(selection.thresholds) for each in found]
    refusal, gate = context.objective.refusal, selection.order.gate
    return (
        replace(head, unseen=ours, synthetic={row.key: refusal(row.right(gate)) for row in refusals}),
        replace(floor, unseen=theirs, synthetic={row.key: refusal(row.floor) for row in refusals}),
    )


def with_prompts(program: TurnProgram, lm: LanguageModel | None) -> TurnProgram:
    """A copy of a program with the prompts that race: their wording, and the whole state of their predictors."""
    if lm is None:
        return program
    update = {"wording": lm.tried.program.policy.wording}
    return with_states(program.with_policy(program.policy.model_copy(update=update)), lm.states)
