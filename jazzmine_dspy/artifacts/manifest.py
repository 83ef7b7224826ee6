"""The manifest of an artefact: what the program was made of, and the hash of every file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jazzmine_dspy import __version__
from jazzmine_dspy.models._base import sha256
from jazzmine_dspy.models.errors import ArtifactError
from jazzmine_dspy.signatures.contract import fingerprints

FORMAT = 2
"""Layout of an artefact that this version reads and writes."""

MANIFEST = "manifest.json"

_REQUIRED = ("program.json", "gates.json", "flows.yaml", "examples.jsonl")


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
        ArtifactError: a byte was changed, a file is missing, the format is newer or older, or a signature is another.
    """
    path = folder / MANIFEST
    again = "Compile the program again with 'jazzmine-dspy optimize', or restore the folder."
    try:
        raw = path.read_bytes()
        manifest = json.loads(raw)
    except (OSError, ValueError) as error:
        raise ArtifactError("The manifest cannot be read", where=str(path), remedy=again) from error
    if not isinstance(manifest, dict) or not isinstance(manifest.get("format"), int):
        raise ArtifactError("The manifest is damaged", where=str(path), remedy=again)
    if manifest["format"] > FORMAT:
        raise ArtifactError(
            f"The program has format {manifest['format']}, this version reads up to {FORMAT}",
            where=str(path),
            remedy="Upgrade jazzmine-dspy.",
        )
    if manifest["format"] < FORMAT:
        raise ArtifactError(
            f"The program has format {manifest['format']}, whose head sees less of a turn than this version's",
            where=str(path),
            remedy="Compile it again with 'jazzmine-dspy optimize', or install the version that compiled it: "
            f"{manifest.get('code')}.",
        )
    if not _untouched(manifest, raw):
        raise ArtifactError("The manifest was changed", where=str(path), remedy=again)
    if missing := [file for file in _REQUIRED if file not in manifest["files"]]:
        raise ArtifactError(f"The manifest has no {missing[0]}", where=str(path), remedy=again)
    for file, digest in manifest["files"].items():
        try:
            actual = sha256((folder / file).read_bytes())
        except OSError as error:
            raise ArtifactError("A file is missing", where=str(folder / file), remedy=again) from error
        if actual != digest:
            raise ArtifactError("A file was changed", where=str(folder / file), remedy=again)
    for predictor, digest in fingerprints().items():
        if manifest["signatures"].get(predictor) != digest:
            raise ArtifactError(
                f"The program was compiled for another signature of {predictor!r}", where=str(path),
                remedy="Compile it again, or install the version of jazzmine-dspy that compiled it: "
                f"{manifest.get('code')}.",
            )  # fmt: skip
    return manifest


def _untouched(manifest: dict[str, Any], raw: bytes) -> bool:
    content = {key: value for key, value in manifest.items() if key != "sha256"}
    try:
        # Comparing bytes as well catches changes that JSON does not see, such as a flipped white space.
        return manifest.get("sha256") == sha256(content) and raw == pretty(manifest)
    except ValueError:
        # A flipped byte can make a number infinite, which is no JSON.
        return False


def pretty(data: Any) -> bytes:
    """JSON as the files of an artefact hold it: the same bytes for the same content."""
    return (json.dumps(data, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()
