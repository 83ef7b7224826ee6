"""From an artefact to a program that decides, with its recall; nothing is parsed before all of it is checked."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from jazzmine_dspy.artifacts.language_model import COMPILED, with_language_model
from jazzmine_dspy.artifacts.manifest import AGAIN, read_checked
from jazzmine_dspy.artifacts.publishing import find
from jazzmine_dspy.memory.procedural.ranking import RecallSettings
from jazzmine_dspy.models.base import log
from jazzmine_dspy.models.errors import ArtifactError, EmbeddingError, InputError, JazzmineError, format_error
from jazzmine_dspy.models.parsing import from_json
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.program.decider import DECIDERS
from jazzmine_dspy.program.heads.storing import (
    heads_from_bytes,
    heads_to_bytes,
    restored,
    states_from_bytes,
    states_to_bytes,
)
from jazzmine_dspy.program.policy import Policy, PolicyName
from jazzmine_dspy.program.ports import Stored
from jazzmine_dspy.program.turn import TurnProgram

BASE = "base"
"""Name of the program that learnt from no label: the package's weights over flows of the caller's."""

_EXAMPLES = "examples.jsonl"
HEADS = "heads.safetensors"
LEARNT = "deciders.safetensors"


class Loaded(NamedTuple):
    """A program and what its manifest says."""

    program: TurnProgram
    manifest: dict[str, Any]
    path: Path


def load(
    path: str | Path,
    *,
    flows: Any = None,
    lm: Any = COMPILED,
    policy: PolicyName | Policy | None = None,
    embedder: Any = None,
    bind: bool = True,
    warm: bool = True,
) -> TurnProgram:
    """Load a compiled program, ready to decide.

    Args:
        path: Folder, name of a project's or a packaged program, or an MLflow URI; or ``"base"``, the program before
            any label is used, which needs ``flows``.
        flows: Other flows than the compiled ones: a registry, a mapping, a list, or a YAML file. New flows
            work through their examples; flows left out are never chosen.
        lm: A ``dspy.LM``, or a name that DSPy takes. By default the model that the program was compiled for, with its
            settings and the key of the environment, if its policy asks one. None or ``"none"`` binds none and leaves it
            to ``dspy.configure``.
        policy: ``shipped``, ``local``, ``lm``, ``cascade``, ``fallback``, or a policy. By default the shipped one, or
            its cascade where ``lm`` is given and the shipped one asks no language model.
        embedder: Another embedder, or the name of a fastembed model; None is the one compiled with.
        bind: False leaves embedder, recall and the model compiled for unbound.
        warm: Whether the index of the flows is built now. False leaves it to the first turn that asks it, which is
            degraded if that outlasts its deadline.

    Raises:
        ArtifactError: damaged, newer, or of other signatures, or ``"base"`` without flows; the message says what to do.
        InputError: ``flows`` are none.

    Example:
        >>> flows = [{"name": "track_order", "description": "Say where an order is."}]
        >>> load("base", flows=flows, bind=False).policy.names
        ('local',)
    """  # fmt: skip
    return load_with_manifest(
        path, flows=flows, lm=lm, policy=policy, embedder=embedder, bind=bind, warm=warm
    ).program


def load_with_manifest(
    path: str | Path,
    *,
    flows: Any = None,
    lm: Any = COMPILED,
    policy: PolicyName | Policy | None = None,
    embedder: Any = None,
    bind: bool = True,
    warm: bool = False,
) -> Loaded:
    """As :func:`load`, with the manifest next to the program; the index is built only if ``warm`` is true."""
    if str(path) == BASE:
        program = _base(flows, embedder, warm=warm, bind=bind)
        manifest: dict[str, Any] = {"name": BASE}
        return Loaded(with_language_model(program, manifest, lm, policy), manifest, Path(BASE))
    folder = find(path)
    manifest, files = read_checked(folder)
    program = _program(_registry(flows, files, folder, manifest.get("agent_id", "")), files, folder)
    # A file that the manifest does not name has no hash that could vouch for it, and is not among these.
    _bind_heads(program, files)
    if bind:
        examples = [
            {"text": text, "flow": flow, "conversation": conversation}
            for text, flow, conversation in read_examples(folder / _EXAMPLES, files[_EXAMPLES])
        ]
        bind_recall(
            program,
            embedder or (manifest.get("embedder") or {}).get("model") or "minilm",
            examples,
            warm=warm,
        )
    _check_embedder(program, manifest)
    lm = None if lm == COMPILED and not bind else lm
    return Loaded(with_language_model(program, manifest, lm, policy), manifest, folder)


def base_policy(policy: Policy) -> Policy:
    """The policy of the base program: the local decider, and no fitted number."""
    default = Policy()
    fitted = ("trust", "clarify", "fallback_score", "recall", "turn_confidence")
    plain = {name: getattr(default, name) for name in fitted}
    return policy.named("local").model_copy(update=plain)


def _base(flows: Any, embedder: Any, *, warm: bool, bind: bool) -> TurnProgram:
    if flows is None:
        raise ArtifactError(
            "The base program has no flows of its own",
            where=BASE,
            remedy="Pass yours: load('base', flows='flows.yaml').",
        )
    program = TurnProgram(_given(flows))
    if bind:
        bind_recall(program, embedder or "minilm", warm=warm)
    return program.with_policy(base_policy(program.policy))


def _given(flows: Any, agent_id: str = "") -> FlowRegistry:
    if isinstance(flows, FlowRegistry):
        return flows
    if isinstance(flows, str | Path):
        return FlowRegistry.from_yaml(flows, agent_id=agent_id)
    if not isinstance(flows, Iterable):
        raise InputError(
            "These are not flows",
            where=f"flows={flows!r}",
            remedy="Pass a registry, a mapping, a list, or the path of a YAML file.",
        )
    return FlowRegistry(flows, agent_id=agent_id)


def _registry(flows: Any, files: Mapping[str, bytes], folder: Path, agent_id: str) -> FlowRegistry:
    """The flows that are given, else the compiled ones."""
    if flows is not None:
        return _given(flows, agent_id)
    where = folder / "flows.yaml"
    with _damaged(where):
        return FlowRegistry.from_yaml_text(files[where.name].decode(), where=where, agent_id=agent_id)


def _program(registry: FlowRegistry, files: Mapping[str, bytes], folder: Path) -> TurnProgram:
    """The program with its policy and its prompts."""
    where = folder / "policy.json"
    with _damaged(where):
        policy = Policy.stored(from_json(files[where.name]))
    program = TurnProgram(registry, policy=policy)
    where = folder / "program.json"
    with _damaged(where):
        state = from_json(files[where.name])
        # Predictors are saved without a model; one that is named here would bring an address of somebody's choice.
        program.load_state({name: {**part, "lm": None} for name, part in state.items()})
        program.dump_state()
    return program


@contextlib.contextmanager
def _damaged(where: Path) -> Iterator[None]:
    """Whatever a file's content leads to, whose hash was made to fit, is a fault of the artefact."""
    try:
        yield
    except JazzmineError as error:
        raise ArtifactError(error.message, where=error.where or str(where), remedy=AGAIN) from error
    except Exception as error:
        raise ArtifactError(
            f"The content is not that of a program ({type(error).__name__})", where=str(where), remedy=AGAIN
        ) from error


def _check_embedder(program: TurnProgram, manifest: dict[str, Any]) -> None:
    """Let the heads go where the embedder is another than they were trained on: their numbers would mean nothing."""
    embedder, trained = program.bindings.embedder, (manifest.get("embedder") or {}).get("fingerprint")
    if embedder is None or trained is None or not program.bindings.heads:
        return
    # Heads that read words alone go on with any embedder.
    bound = [stage for stage, head in program.bindings.heads.items() if head.texts("a message")]
    if bound and embedder.fingerprint != trained:
        names = ", ".join(bound)
        log.warning(
            "the heads (%s) were trained on %s and not on %s: left out", names, trained, embedder.fingerprint
        )
        program.bind(heads=dict.fromkeys(bound))


# --- the trained models of a program ---------------------------------------------------------------------


def heads_to_files(program: TurnProgram) -> dict[str, bytes]:
    """The files that hold a program's heads, and what its bound deciders have learnt; none where it has none.

    Raises:
        ArtifactError: a head is of another kind than its stage stores, or nobody registered the class of a decider.
    """
    heads = program.bindings.heads
    files = {HEADS: heads_to_bytes(heads)} if heads else {}
    bound = {name: one for name, one in program.bindings.deciders.items() if name in program.policy.names}
    if strange := [name for name, one in bound.items() if DECIDERS.get(name) is not type(one)]:
        raise ArtifactError(
            f"The decider {strange[0]!r} ({type(bound[strange[0]]).__name__}) has a class that is not registered",
            remedy=f"Register its class with @decider({strange[0]!r}), or save another policy.",
        )
    learnt = {name: one.to_state() for name, one in bound.items() if isinstance(one, Stored)}
    return {**files, LEARNT: states_to_bytes(learnt)} if learnt else files


def _bind_heads(program: TurnProgram, files: Mapping[str, bytes]) -> None:
    """Bind the heads and the deciders that an artefact's files hold.

    Raises:
        ArtifactError: a file is damaged, of another format, or holds a decider that nobody registered.
        ExtensionError: the package that registers a decider cannot be loaded.
    """
    if HEADS in files:
        program.bind(heads=heads_from_bytes(files[HEADS]))
    if LEARNT not in files:
        return
    states = states_from_bytes(files[LEARNT], LEARNT)
    if strange := [name for name in states if name not in DECIDERS]:
        raise ArtifactError(
            f"The decider {strange[0]!r} has a class that is not registered",
            where=LEARNT,
            remedy="Install the package that has it, or import the module that registers it.",
        )
    kinds: dict[str, type[Any]] = {name: DECIDERS[name] for name in states}
    if lost := [name for name, kind in kinds.items() if not hasattr(kind, "from_state")]:
        raise ArtifactError(
            f"The decider {lost[0]!r} cannot be read: its class has no from_state()",
            where=LEARNT,
            remedy="Install the version of its package that the program was compiled with.",
        )
    program.bind(deciders={name: restored(kind, states[name], LEARNT) for name, kind in kinds.items()})


def read_examples(file: Path, data: bytes | None = None) -> list[tuple[str, str, str]]:
    """Read the labelled examples of a stored program (``examples.jsonl``), as (text, flow, conversation).

    Args:
        file: One JSON object a line; without the file there are no examples.
        data: Its content, if it was read already.

    Raises:
        InputError: A line is no example.
    """
    examples = []
    if data is None:
        data = file.read_bytes() if file.is_file() else b""
    for number, line in enumerate(data.splitlines(), start=1):
        try:
            fields = from_json(line)
            examples.append((fields["text"], fields["flow"], fields.get("conversation", "")))
            for part in examples[-1]:
                part.encode()
            if not examples[-1][0].strip():
                raise ValueError("the text is empty")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise InputError(
                "This is not an example of a program",
                where=f"{file}, line {number}",
                remedy="Save the program again.",
            ) from error
    return examples


def bind_recall(
    program: TurnProgram,
    embedder: Any,
    examples: list[dict[str, str]] | None = None,
    *,
    warm: bool = False,
) -> None:
    """Bind an embedder and an index of the program's flows; where the model is missing, say so and go on.

    The index ranks as the program's policy says. Without an embedder the heads decline and recall fails, and decisions
    are degraded with that cause.

    Args:
        program: What to bind them to.
        embedder: An embedder, or the name of a fastembed model.
        examples: Further texts for the index, with their flows; those of flows that are not there are left out.
        warm: Whether the index is built at once; else by the first turn that asks it.
    """
    from jazzmine_dspy.memory.procedural.embedder import FastembedEmbedder
    from jazzmine_dspy.memory.procedural.index import FlowIndex

    try:
        model = FastembedEmbedder(embedder) if isinstance(embedder, str) else embedder
        known = [item for item in examples or [] if item["flow"] in program.registry]
        texts = [(item["text"], item["flow"], item.get("conversation", "")) for item in known]
        settings = recall_settings(program.policy.recall)
        program.bind(
            embedder=model,
            recall=FlowIndex(program.registry, model, examples=texts, settings=settings),
            warm=warm,
        )
    except EmbeddingError as error:
        log.warning("no embedder is bound: %s", format_error(error))


def recall_settings(numbers: Mapping[str, float]) -> RecallSettings:
    """Recall's settings from a policy's plain numbers; empty gives the defaults.

    Raises:
        ArtifactError: a number has a name that recall does not know.

    Example:
        >>> recall_settings({"rrf_k": 5.0, "sparse": 0.5}).rrf_k
        5
    """
    default = RecallSettings()._asdict()
    if unknown := sorted(set(numbers) - set(default)):
        raise ArtifactError(f"Recall has no setting {unknown[0]!r}", remedy=f"Known: {', '.join(default)}.")
    return RecallSettings(**{name: type(default[name])(value) for name, value in numbers.items()})


def recall_numbers(settings: RecallSettings) -> dict[str, float]:
    """The inverse of :func:`recall_settings`; empty for the defaults."""
    return (
        {}
        if settings == type(settings)()
        else {name: float(value) for name, value in settings._asdict().items()}
    )
