"""The recall index, its examples, and the embedder that a program is served with."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jazzmine_dspy.models.errors import ArtifactError, EmbeddingError, InputError, format_error
from jazzmine_dspy.models.parsing import from_json
from jazzmine_dspy.program.turn import TurnProgram

if TYPE_CHECKING:
    from jazzmine_dspy.memory.procedural.ranking import RecallSettings

log = logging.getLogger("jazzmine_dspy")


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
                "This is no example of a program",
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
        index = FlowIndex(program.registry, model, examples=texts, settings=settings)
        program.bind(embedder=model, recall=index, warm=warm)
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
    from jazzmine_dspy.memory.procedural.ranking import RecallSettings

    default = RecallSettings()._asdict()
    if unknown := sorted(set(numbers) - set(default)):
        raise ArtifactError(f"Recall has no setting {unknown[0]!r}", remedy=f"Known: {', '.join(default)}.")
    return RecallSettings(**{name: type(default[name])(value) for name, value in numbers.items()})


def recall_numbers(settings: RecallSettings) -> dict[str, float]:
    """The inverse of :func:`recall_settings`; empty for the defaults."""
    if settings == type(settings)():
        return {}
    return {name: float(value) for name, value in settings._asdict().items()}
