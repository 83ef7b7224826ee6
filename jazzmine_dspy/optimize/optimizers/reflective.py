"""GEPA over whole prompts: instructions and descriptions of fields, by an adapter of ours to the ``gepa`` package."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import dspy
from dspy.teleprompt.teleprompt import Teleprompter
from gepa.api import optimize as evolve
from gepa.core.adapter import EvaluationBatch

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.optimize.optimizers.candidates import Attempt, Candidate, calls_per_turn
from jazzmine_dspy.optimize.optimizers.means import Means
from jazzmine_dspy.optimize.optimizers.search import quiet
from jazzmine_dspy.optimize.optimizers.trajectories import Trajectory, tried
from jazzmine_dspy.optimize.optimizers.writing import Writer
from jazzmine_dspy.optimize.registered import optimizer
from jazzmine_dspy.program.trainable import TrainableProgram
from jazzmine_dspy.program.turn import TurnProgram

MINIBATCH = 3
"""Turns whose answers are looked at for one new text."""

Texts = dict[str, str]
"""The texts of a prompt: of ``PREDICTOR`` the instructions, of ``PREDICTOR.FIELD`` the description of a field."""


@optimizer("gepa")
def gepa_of(base: TurnProgram, train: Sequence[Example], means: Means) -> Iterator[Attempt]:
    """Instructions and descriptions of fields, written from what was wrong; the best on dev-A, kept by Pareto front."""
    per_turn, left = calls_per_turn(base), means.left()
    dev = means.turns(means.dev, means.recipe.search.turns)
    rollouts = means.recipe.search.rollouts
    if left is not None:
        # A round that has begun is ended: two batches, one text, and all of the validation set.
        fixed = (2 * MINIBATCH + len(dev)) * per_turn
        rollouts = min(rollouts, (left - fixed) // (per_turn + 1))
    if rollouts < len(dev) + 2 * MINIBATCH:
        means.note("the budget for compiling is spent before candidate 'gepa'")
        return
    calls = (rollouts + 2 * MINIBATCH + len(dev)) * per_turn + means.own_calls(rollouts // MINIBATCH + 1)
    yield Attempt("gepa", calls, functools.partial(_made, base, train, dev, means, rollouts))


def _made(
    base: TurnProgram, train: Sequence[Example], dev: Sequence[Example], means: Means, rollouts: int
) -> Candidate:
    compiler = PromptGEPA(means, rollouts)
    compiled = compiler.compile(
        base.trainable(), trainset=means.plain(train, base), valset=means.plain(dev or train, base)
    )
    return Candidate("gepa", base.with_compiled(compiled), compiler.notes)


class PromptGEPA(Teleprompter):
    """GEPA for ``program.trainable()``: as ``dspy.GEPA``, and of descriptions of fields too.

    Args:
        means: Of the run.
        rollouts: Turns that are asked about in all.
    """

    def __init__(self, means: Means, rollouts: int) -> None:
        super().__init__()
        self.means = means
        self.rollouts = rollouts
        self.notes: tuple[str, ...] = ()

    def compile(
        self,
        student: TrainableProgram,
        *,
        trainset: list[dspy.Example],
        teacher: Any = None,  # noqa: ARG002 - as DSPy's own
        valset: list[dspy.Example] | None = None,
    ) -> TrainableProgram:
        """The best texts found; those of the student where none was better."""
        writer = Writer(self.means.writer, self.means.note)
        adapter = PromptAdapter(student, self.means, writer)
        with quiet():
            found: Any = evolve(
                seed_candidate=adapter.texts(),
                trainset=trainset,
                valset=valset or trainset,
                adapter=cast("Any", adapter),
                module_selector=cast("Any", adapter.choose),
                reflection_minibatch_size=min(MINIBATCH, len(trainset)),
                max_metric_calls=self.rollouts,
                # Another round begins only within the minutes of the run.
                stop_callbacks=lambda _state: not self.means(0),
                logger=_Silent(),
                track_best_outputs=False,
                seed=self.means.recipe.seed,
            )
        writer.close()
        best = cast("Texts", found.best_candidate)
        changed = [name for name, text in best.items() if text != adapter.texts()[name]]
        by = "templates" if writer.lm is None else str(writer.lm.model)
        self.notes = (
            f"{len(found.candidates) - 1} of the texts written by {by} helped on their turns; of the best "
            f"{', '.join(changed) or 'none'} differ",
        )
        return adapter.build(best)


class PromptAdapter:
    """What ``gepa`` asks of us: try texts on turns, tell what was wrong, write others.

    Args:
        student: The prompts to begin with.
        means: Of the run.
        writer: Writes the texts.
    """

    def __init__(self, student: TrainableProgram, means: Means, writer: Writer) -> None:
        self.student = student
        self.means = means
        self.writer = writer
        self._rounds = 0

    def texts(self) -> Texts:
        """The texts of the student: instructions, and where the recipe says so the descriptions of answered fields."""
        found: Texts = {}
        for name in self.student.active_predictors():
            signature = self.student.predictor(name).signature
            found[name] = signature.instructions
            if self.means.recipe.search.fields:
                for field, info in signature.output_fields.items():
                    found[f"{name}.{field}"] = str(info.json_schema_extra["desc"])
        return found

    def build(self, texts: Mapping[str, str]) -> TrainableProgram:
        """The student with other texts."""
        module: TrainableProgram = self.student.deepcopy()
        for part, text in texts.items():
            name, _, field = part.partition(".")
            predictor = module.predictor(name)
            signature = predictor.signature
            predictor.signature = (
                signature.with_updated_fields(field, desc=text)
                if field
                else signature.with_instructions(text)
            )
        return module

    def evaluate(
        self, batch: list[dspy.Example], candidate: Texts, capture_traces: bool = False
    ) -> EvaluationBatch[Trajectory, None]:
        """Try texts on turns; an answer that cannot be read is scored 0, and told."""
        found = tried(self.build(candidate), batch, self.means)
        if capture_traces:
            self.writer.learn(each for one in found for each in one.findings)
        return EvaluationBatch(
            outputs=[None] * len(found),
            scores=[each.score for each in found],
            trajectories=found if capture_traces else None,
        )

    def choose(
        self,
        state: Any,  # noqa: ARG002 - of gepa
        trajectories: list[Trajectory],
        subsample_scores: list[float],  # noqa: ARG002
        candidate_idx: int,  # noqa: ARG002
        candidate: Texts,
    ) -> list[str]:
        """The text to write anew: in turn the instructions, and the description of the field that is wrong most."""
        self._rounds += 1
        names = self.student.active_predictors()
        wrong = Counter(each.field for one in trajectories for each in one.findings if each.field)
        fields = [part for part in candidate if "." in part]
        blamed = sorted(fields, key=lambda part: (-wrong[part.partition(".")[2]], fields.index(part)))
        if blamed and self._rounds % 2 == 0 and wrong[blamed[0].partition(".")[2]]:
            return [blamed[0]]
        owner = [part.partition(".")[0] for part in blamed if wrong[part.partition(".")[2]]]
        return [owner[0] if owner else names[(self._rounds // 2) % len(names)]]

    def make_reflective_dataset(
        self,
        candidate: Texts,  # noqa: ARG002 - of gepa
        eval_batch: EvaluationBatch[Trajectory, None],
        components_to_update: list[str],
    ) -> dict[str, list[dict[str, Any]]]:
        """For each text what its predictor was given, what it answered, and what is wrong, in words."""
        return {
            part: [_record(part, each) for each in eval_batch.trajectories or ()]
            for part in components_to_update
        }

    def propose_new_texts(
        self,
        candidate: Texts,
        reflective_dataset: Mapping[str, Sequence[Mapping[str, Any]]],
        components_to_update: list[str],
    ) -> Texts:
        """Other texts, by a language model or by templates."""
        found: Texts = {}
        for part in components_to_update:
            name, _, field = part.partition(".")
            records = reflective_dataset.get(part, [])
            if field:
                found[part] = self.writer.description(field, candidate[part], candidate[name], records)
            else:
                found[part] = self.writer.instruction(candidate[part], records)
        return found


def _record(part: str, trajectory: Trajectory) -> dict[str, Any]:
    name, _, field = part.partition(".")
    own = [call for call in trajectory.calls if call.predictor == name]
    wrong = [each.text for each in trajectory.findings if not field or each.field in (field, "")]
    inputs = own[-1].inputs if own else {"message": str(trajectory.example["turn"]["text"])}
    said = own[-1].outputs if own else "no answer"
    if not isinstance(said, str):
        said = {key: _plain(value) for key, value in said.items() if not field or key == field}
    return {
        "Inputs": {key: value for key, value in inputs.items() if value},
        "Generated Outputs": said,
        "Feedback": "\n".join(wrong) or "The answer is right.",
    }


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    dump = getattr(value, "model_dump", None)
    return dump(mode="json", exclude_none=True) if dump is not None else value


class _Silent:
    """Where ``gepa`` writes of its rounds."""

    def log(self, message: str) -> None:
        """Nothing."""
