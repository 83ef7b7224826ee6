"""The one root of every error that this package raises."""

from __future__ import annotations


class JazzmineError(Exception):
    """Root of all errors of the package (Pydantic's ``ValidationError`` alone stands outside).

    Args:
        message: What happened.
        where: File, line, field or id that it happened at.
        remedy: What to do next, as a full sentence.

    Example:
        >>> str(JazzmineError("Unknown flow 'x'", where="conversations.jsonl:3", remedy="Add it to flows.yaml."))
        "Unknown flow 'x' (conversations.jsonl:3). Add it to flows.yaml."
    """

    def __init__(self, message: str, *, where: str = "", remedy: str = "") -> None:
        self.message = message
        self.where = where
        self.remedy = remedy
        text = message.rstrip(".")
        if where:
            text += f" ({where})"
        super().__init__(f"{text}. {remedy}" if remedy else f"{text}.")

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.message, self.where, self.remedy))


def _rebuild(kind: type[JazzmineError], message: str, where: str, remedy: str) -> JazzmineError:
    """Copy an error without its subclass's constructor, so that it crosses threads and processes whole."""
    error = kind.__new__(kind)
    JazzmineError.__init__(error, message, where=where, remedy=remedy)
    return error


class InputError(JazzmineError):
    """What the caller handed in cannot be used: empty text, text over the limit, an unknown name."""


class FlowError(JazzmineError):
    """A flow definition cannot be used: bad YAML, a slot with no type, a name taken twice."""


class DatasetError(JazzmineError):
    """A dataset cannot be used as it is: a broken line, an unknown flow, an empty split."""


class AnswerError(JazzmineError):
    """A language model's answer could not be read: truncated, a key missing, another type."""


class EnhancementError(AnswerError):
    """The answer to the enhancement could not be read."""


class SelectionError(AnswerError):
    """The answer to the flow selection could not be read."""


class UnderstandingError(AnswerError):
    """The answer to the understanding could not be read."""


class RecipeError(JazzmineError):
    """A recipe holds a key or a value that no optimization run understands."""


class ExtensionError(JazzmineError):
    """What a package adds cannot be used: a name taken twice, a method missing, a module that does not import."""


class ArtifactError(JazzmineError):
    """A compiled program cannot be loaded: damaged, of a newer format, or of other signatures."""


class EmbeddingError(JazzmineError):
    """The embedding model is missing, damaged or failed."""


class MemoryUnavailableError(JazzmineError):
    """A store did not answer, or not in time."""
