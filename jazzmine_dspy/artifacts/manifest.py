"""The files of a program, and its manifest: what the program was made of, and the hash of every file."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from jazzmine_dspy._version import __version__
from jazzmine_dspy.models.base import sha256
from jazzmine_dspy.models.errors import ArtifactError, reading
from jazzmine_dspy.models.parsing import from_json
from jazzmine_dspy.signatures.contract import fingerprints

MANIFEST = "manifest.json"
_MEGABYTE = 2**20
_LIMITS = {
    MANIFEST: 16 * _MEGABYTE,
    "program.json": 64 * _MEGABYTE,
    "policy.json": 16 * _MEGABYTE,
    "flows.yaml": 64 * _MEGABYTE,
    "examples.jsonl": 512 * _MEGABYTE,
    "heads.safetensors": 2048 * _MEGABYTE,
    "deciders.safetensors": 2048 * _MEGABYTE,
}
"""The files that an artefact may have, and how large each may be."""

AGAIN = "Compile the program again with 'jazzmine-dspy optimize', or restore the folder."


_SECRET = re.compile(r"(?:key|key_id|secret|password|token|authorization|headers?)$", re.IGNORECASE)


def is_secret(name: str, value: Any) -> bool:
    """Whether a setting of a language model is never stored: a key, or an address that may carry one."""
    address = isinstance(value, str) and re.search(r"://[^/]*@|://.*\?", value) is not None
    return address or _SECRET.search(name) is not None


@contextlib.contextmanager
def unreplaced(folder: Path) -> Iterator[None]:
    """Context in which no other save replaces the program in a folder. Do not nest it.

    It locks the folder above, which needs no right to write there. A system that cannot lock folders goes on without.
    """
    with contextlib.ExitStack() as stack:
        # ImportError: Windows has no fcntl. ValueError and RuntimeError: the name leads nowhere.
        with contextlib.suppress(ImportError, OSError, ValueError, RuntimeError):
            import fcntl

            handle = os.open(folder.resolve().parent, os.O_RDONLY | os.O_DIRECTORY)
            stack.callback(os.close, handle)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def read_file(folder: Path, name: str) -> bytes:
    """The content of a file of an artefact.

    The file must be regular and lie in the folder, also where links lead to it; nothing that could block or never end
    is read.

    Raises:
        ArtifactError: the file is missing, is not a regular file, is too large, or cannot be read.
    """
    path, limit = folder / name, _LIMITS[name]
    try:
        place = path.resolve(strict=True)
        if not place.is_relative_to(folder.resolve()):
            raise ArtifactError(
                "The file is a link out of the program's folder", where=str(path), remedy=AGAIN
            )
        if not place.is_file():
            raise ArtifactError("This is not a regular file", where=str(path), remedy=AGAIN)
        with place.open("rb") as stream:
            data = stream.read(limit + 1)
    except FileNotFoundError as error:
        raise ArtifactError("A file is missing", where=str(path), remedy=AGAIN) from error
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: links that go round in a circle
        problem = getattr(error, "strerror", None) or "its name leads to no file"
        raise ArtifactError(f"A file cannot be read: {problem}", where=str(path), remedy=AGAIN) from error
    if len(data) > limit:
        raise ArtifactError(f"The file is larger than {limit:,} bytes", where=str(path), remedy=AGAIN)
    return data


FORMAT = 4
"""Layout of an artefact that this version writes and reads: the policy names deciders."""

_REQUIRED = ("program.json", "policy.json", "flows.yaml", "examples.jsonl")


class _Fact(BaseModel):
    """A part of the manifest that is read again; what else it says stays as it is."""

    model_config = ConfigDict(strict=True, extra="allow")


class _Named(_Fact):
    model: str | None = None
    fingerprint: str | None = None
    settings: dict[str, Any] | None = None


class _Recipe(_Fact):
    lm_settings: dict[str, Any] | None = None
    price: Annotated[list[float], Field(min_length=2, max_length=2)] | None = None


class _Manifest(_Fact):
    format: int
    sha256: str
    name: str
    code: str
    flows: str
    agent_id: str = ""
    files: dict[str, str]
    signatures: dict[str, str]
    lm: _Named | None = None
    embedder: _Named | None = None
    recipe: _Recipe | None = None


def manifest_of(files: Mapping[str, bytes], facts: Mapping[str, Any]) -> bytes:
    """The manifest of some files, sealed with its own hash.

    Args:
        files: Their content, by name.
        facts: What it says beside versions and hashes: name, flows, dataset, recipe, LM, scores.
    """
    content = {
        "format": FORMAT,
        "code": __version__,
        "signatures": fingerprints(),
        "files": {file: sha256(data) for file, data in files.items()},
        **facts,
    }
    return pretty({**content, "sha256": sha256(content)})


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of an artefact, after every file's hash and every signature has been checked.

    Raises:
        ArtifactError: a byte was changed, a file is missing or is none, the format is newer or older, or a signature
            is another.
    """
    return read_checked(folder)[0]


def read_checked(folder: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """A manifest with its files, each read once, so that what was checked is what is used.

    Raises:
        ArtifactError: as :func:`read_manifest`.
    """
    with contextlib.suppress(ArtifactError):
        return _checked(folder)
    with unreplaced(folder):  # another process may have replaced the program between two files
        return _checked(folder)


def _checked(folder: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    path = folder / MANIFEST
    raw = read_file(folder, MANIFEST)
    manifest = _parsed(raw, path)
    # Comparing bytes as well catches changes that JSON does not see, such as a flipped white space.
    content = {key: value for key, value in manifest.items() if key != "sha256"}
    try:
        is_unchanged = manifest.get("sha256") == sha256(content) and raw == pretty(manifest)
    except ValueError:  # a number that JSON cannot hold
        is_unchanged = False
    if not is_unchanged:
        raise ArtifactError("The manifest was changed", where=str(path), remedy=AGAIN)
    _check_shape(manifest, path)
    if missing := [name for name in _REQUIRED if name not in manifest["files"]]:
        raise ArtifactError(f"The manifest has no {missing[0]}", where=str(path), remedy=AGAIN)
    if strange := [name for name in manifest["files"] if name not in _LIMITS or name == MANIFEST]:
        raise ArtifactError(
            f"The manifest names {strange[0][:100]!r}, which is not a file of a program",
            where=str(path),
            remedy=AGAIN,
        )
    files = {name: read_file(folder, name) for name in manifest["files"]}
    for name, digest in manifest["files"].items():
        if sha256(files[name]) != digest:
            raise ArtifactError("A file was changed", where=str(folder / name), remedy=AGAIN)
    for predictor, digest in fingerprints().items():
        if manifest["signatures"].get(predictor) != digest:
            raise ArtifactError(
                f"The program was compiled for another signature of {predictor!r}", where=str(path),
                remedy="Compile it again with jazzmine-dspy optimize, or install the version that compiled it: "
                f"{manifest['code'][:40]}.",
            )  # fmt: skip
    return manifest, files


def _parsed(raw: bytes, path: Path) -> dict[str, Any]:
    with reading(path, "The manifest cannot be read", AGAIN, ArtifactError):
        manifest = from_json(raw)
    if not isinstance(manifest, dict) or type(manifest.get("format")) is not int:
        raise ArtifactError("The manifest is damaged", where=str(path), remedy=AGAIN)
    if manifest["format"] != FORMAT:
        older = (
            "Compile it again with 'jazzmine-dspy optimize', or install the version that compiled it: "
            f"{str(manifest.get('code'))[:40]}."
        )
        raise ArtifactError(
            f"The program has format {manifest['format']}, this version reads {FORMAT}",
            where=str(path),
            remedy="Upgrade jazzmine-dspy." if manifest["format"] > FORMAT else older,
        )
    return manifest


def _check_shape(manifest: dict[str, Any], path: Path) -> None:
    try:
        _Manifest.model_validate(manifest)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(part)[:40] for part in first["loc"])
        raise ArtifactError(
            f"The manifest is malformed: {first['msg']}", where=f"{path}, field {field}", remedy=AGAIN
        ) from error


def pretty(data: Any, *, sort: bool = True) -> bytes:
    """JSON as the files of an artefact hold it: the same bytes for the same content."""
    return (json.dumps(data, sort_keys=sort, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()
