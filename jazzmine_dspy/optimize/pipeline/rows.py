"""Rows to fit on: what the program's own steps make of labelled turns, up to the stage that is fitted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from jazzmine_dspy.datasets.schema import Example
from jazzmine_dspy.eval.evaluation import TurnResult
from jazzmine_dspy.eval.run import evaluate
from jazzmine_dspy.models.decision import Enhancement, SourceKind
from jazzmine_dspy.program.batch import at_once
from jazzmine_dspy.program.bindings import Bindings
from jazzmine_dspy.program.driver import drive
from jazzmine_dspy.program.policy import FLOOR, Policy
from jazzmine_dspy.program.ports import HeadInput, HeadPort, Recalled, SelectionOutput
from jazzmine_dspy.program.sources.heads import head_input
from jazzmine_dspy.program.sources.rules import SelectRule
from jazzmine_dspy.program.stage import Answer, Context, Recall, Steps
from jazzmine_dspy.program.turn import TurnProgram

if TYPE_CHECKING:
    from jazzmine_dspy.models.registry import FlowRegistry
    from jazzmine_dspy.program.ports import EmbedderPort

State = Literal["idle", "busy"]
OnProgress = Callable[[int, int], None]

_BULK = 512
_NOTHING = Bindings()


class Row(NamedTuple):
    """A labelled turn as the sources of the selection find it in service.

    Args:
        example: The turn, with its labels.
        recalled: What recall finds for it without its own conversation.
        ruled: Whether a rule answers it, so that neither head nor floor is ever asked.
        enhancement: Its rewrite, predicted and never the labelled one; None where the text stands for itself.
    """

    example: Example
    recalled: tuple[Recalled, ...]
    ruled: bool
    enhancement: Enhancement | None = None

    @property
    def wanted(self) -> tuple[str, ...]:
        """The flows that it starts."""
        return self.example.labels.flows or ()

    @property
    def state(self) -> State:
        """Whether something runs before the turn."""
        return self.example.turn.load

    def context(self, registry: FlowRegistry) -> Context:
        """What the sources of the selection share of this turn."""
        return Context(
            turn=self.example.turn, registry=registry, enhancement=self.enhancement,
            candidates=list(self.recalled), recalled=list(self.recalled),
        )  # fmt: skip


class Question(NamedTuple):
    """What a program asks of recall for a turn: the query, and further texts beside it."""

    example: Example
    query: str
    summaries: tuple[str, ...]


class Exclusions:
    """Which conversations a turn must not find while something is fitted: its own, and those that say the same."""

    def __init__(self, examples: Sequence[Example]) -> None:
        self._saying: dict[str, set[str]] = defaultdict(set)
        for example in examples:
            self._saying[plain(example.turn.text)].add(example.conversation_id)

    def of(self, example: Example) -> tuple[str, ...]:
        """Ids of conversations, sorted."""
        return tuple(sorted({example.conversation_id, *self._saying.get(plain(example.turn.text), ())}))


def collect_rows(
    program: TurnProgram,
    examples: Sequence[Example],
    *,
    exclude: Exclusions | None = None,
    on_progress: OnProgress | None = None,
) -> list[Row]:
    """The turns whose flows are labelled, as the program's own steps bring them to the selection.

    Args:
        program: Its policy says the shape, and which sources rewrite.
        examples: Turns; those without the label are left out.
        exclude: Which conversations a turn must not find; none where the index holds no turns of these.
        on_progress: Called with the turns done and all.
    """
    labelled = [example for example in examples if example.labels.flows is not None]
    if program.bindings.embedder is not None:
        warm(program.bindings.embedder, [example.turn.text for example in labelled])
    rows = []
    for row in at_once(lambda example: row_of(program, example, exclude), labelled, _hands(program)):
        rows.append(row)
        if on_progress:
            on_progress(len(rows), len(labelled))
    return rows


def _hands(program: TurnProgram) -> int | None:
    """As many as the run says where a language model may be asked; else threads bring nothing."""
    return None if program.active_predictors() else 1


def row_of(program: TurnProgram, example: Example, exclude: Exclusions | None = None) -> Row:
    """One turn, brought to the selection."""
    left_out = exclude.of(example) if exclude is not None else ()
    context: Context = drive(program.steps_to("select", example.turn, left_out), program, program.bindings)
    ruled = is_ruled(program.registry, example)
    return Row(example, tuple(context.recalled), ruled, context.enhancement)


def questions(program: TurnProgram, examples: Sequence[Example]) -> list[Question]:
    """What a program asks of recall, turn by turn, whatever its index holds; turns for which it asks nothing lack."""

    def ask(example: Example) -> Question | None:
        steps = _to_recall(program.steps_to("select", example.turn, (example.conversation_id,)))
        asked: Recall | None = drive(steps, program, program.bindings)
        return None if asked is None else Question(example, asked.query, asked.summaries)

    return [found for found in at_once(ask, examples, _hands(program)) if found is not None]


def _to_recall(steps: Steps[Any]) -> Steps[Recall | None]:
    """The same steps, ended where recall is asked."""
    try:
        effect = next(steps)
        while not isinstance(effect, Recall):
            try:
                result = yield effect
            except Exception as error:
                effect = steps.throw(error)
            else:
                effect = steps.send(result)
    except StopIteration:
        return None
    steps.close()
    return effect


def is_ruled(registry: FlowRegistry, example: Example) -> bool:
    """Whether a rule answers the selection of a turn, so that no other source is ever asked."""
    rule = SelectRule("select", "rule", _NOTHING, Policy())
    try:
        next(rule.steps(Context(turn=example.turn, registry=registry)))
    except StopIteration as stop:
        return isinstance(stop.value, Answer)
    raise AssertionError("a rule asks for nothing")


def predict_all(program: TurnProgram, rows: Sequence[Row]) -> list[SelectionOutput]:
    """What the bound head says of turns."""
    return [predict(program.bindings.heads["select"], program, row) for row in rows]


def predict(
    head: HeadPort[SelectionOutput], program: TurnProgram, row: Row, gone: Collection[str] = frozenset()
) -> SelectionOutput:
    """What a head says of a turn, as if some flows did not exist."""
    context = row.context(program.registry)
    flows = tuple(name for name in context.choosable if name not in gone)
    given: HeadInput = drive(head_input(head, context, flows), program, program.bindings)
    return head.predict(given)


def decide_rows(
    program: TurnProgram, rows: Sequence[Row], outputs: Sequence[SelectionOutput] | None = None
) -> list[TurnResult]:
    """Whole turns as the program decides them, with what was recalled and predicted for each row put in.

    So a head is scored within the whole program on turns that it was trained on, by answers of heads that were not.

    Args:
        program: Its policy says who rewrites and understands.
        rows: The turns.
        outputs: What the head says of each, whatever its confidence; None asks rules and floor alone.
    """
    order: tuple[SourceKind, ...] = FLOOR["select"] if outputs is None else ("rule", "head", "floor")
    orders = {**program.policy.orders, "select": order}
    gates = {stage: held for stage, held in program.policy.gates.items() if stage != "select"}
    policy = program.policy.model_copy(update={"orders": orders, "gates": gates, "clarify": {}})
    scratch = program.with_policy(policy)
    found: list[TurnResult] = []
    for number, row in enumerate(rows):
        scratch.bind(recall=_Recorded(row.recalled, program.bindings.recall))
        if outputs is not None:
            scratch.bind(heads={"select": RecordedHead(outputs[number])})
        found += evaluate(scratch, [row.example]).turns
    return found


class _Recorded:
    """Recall that gives what it found before."""

    fingerprint = "recorded"

    def __init__(self, found: Sequence[Recalled], inner: Any) -> None:
        self._found = list(found)
        self.registry = getattr(inner, "registry", None)

    def __deepcopy__(self, memo: dict[int, Any]) -> _Recorded:
        return self

    def recall(self, query: str, **settings: Any) -> list[Recalled]:  # noqa: ARG002
        """What was found."""
        return list(self._found)

    async def arecall(self, query: str, **settings: Any) -> list[Recalled]:  # noqa: ARG002
        """The same."""
        return list(self._found)


class RecordedHead:
    """A head that says what was predicted before."""

    fingerprint = "recorded"

    def __init__(self, output: SelectionOutput) -> None:
        self._output = output

    def __deepcopy__(self, memo: dict[int, Any]) -> RecordedHead:
        return self

    def texts(self, message: str) -> tuple[str, ...]:  # noqa: ARG002
        """It looks at nothing."""
        return ()

    def predict(self, given: HeadInput) -> SelectionOutput:  # noqa: ARG002
        """What was predicted."""
        return self._output


def warm(embedder: EmbedderPort, texts: Sequence[str]) -> None:
    """Let an embedder see many texts in bulk, so that it remembers them when they are asked for one by one."""
    set_cache_size = getattr(embedder, "set_cache_size", None)
    distinct = list(dict.fromkeys(texts))
    if set_cache_size is not None:
        # Other texts are asked for in between, such as those of the flows.
        set_cache_size(2 * len(distinct) + _BULK)
    for start in range(0, len(distinct), _BULK):
        embedder.features(distinct[start : start + _BULK])


def plain(text: str) -> str:
    """A text as two turns are compared by."""
    return " ".join(text.lower().split())
