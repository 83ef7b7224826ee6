"""The recall index and the embedder that a program is served with."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from jazzmine_dspy.models.errors import ArtifactError, EmbeddingError, format_error
from jazzmine_dspy.program.turn import TurnProgram

if TYPE_CHECKING:
    from jazzmine_dspy.memory.procedural.ranking import Settings

log = logging.getLogger("jazzmine_dspy")


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
    from jazzmine_dspy.memory.procedural.embed import FastembedEmbedder
    from jazzmine_dspy.memory.procedural.recall import FlowIndex

    try:
        model = FastembedEmbedder(embedder) if isinstance(embedder, str) else embedder
        known = [item for item in examples or [] if item["flow"] in program.registry]
        texts = [(item["text"], item["flow"], item.get("conversation", "")) for item in known]
        settings = recall_settings(program.policy.recall)
        index = FlowIndex(program.registry, model, examples=texts, settings=settings)
        program.bind(embedder=model, recall=index, warm=warm)
    except EmbeddingError as error:
        log.warning("no embedder is bound: %s", format_error(error))


def recall_settings(numbers: Mapping[str, float]) -> Settings:
    """Recall's settings from a policy's plain numbers; empty gives the defaults.

    Raises:
        ArtifactError: a number has a name that recall does not know.

    Example:
        >>> recall_settings({"rrf_k": 5.0, "sparse": 0.5}).rrf_k
        5
    """
    from jazzmine_dspy.memory.procedural.ranking import Settings

    default = Settings()._asdict()
    if unknown := sorted(set(numbers) - set(default)):
        raise ArtifactError(f"Recall has no setting {unknown[0]!r}", remedy=f"Known: {', '.join(default)}.")
    return Settings(**{name: type(default[name])(value) for name, value in numbers.items()})


def recall_numbers(settings: Settings) -> dict[str, float]:
    """The inverse of :func:`recall_settings`; empty for the defaults."""
    if settings == type(settings)():
        return {}
    return {name: float(value) for name, value in settings._asdict().items()}
