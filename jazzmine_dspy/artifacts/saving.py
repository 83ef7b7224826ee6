"""Writing a program as an artefact: all of it or nothing."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dspy

from jazzmine_dspy.artifacts.loading import heads_to_files
from jazzmine_dspy.artifacts.manifest import MANIFEST, is_secret, manifest_of, pretty, unreplaced
from jazzmine_dspy.models.base import canonical_json
from jazzmine_dspy.models.errors import ArtifactError
from jazzmine_dspy.program.prompts import states_of
from jazzmine_dspy.program.turn import TurnProgram
from jazzmine_dspy.signatures.contract import CONTRACTS


def save(
    program: TurnProgram,
    folder: str | Path,
    *,
    name: str | None = None,
    facts: Mapping[str, Any] | None = None,
    run: Mapping[str, Any] | None = None,
    examples: Sequence[Mapping[str, str]] | None = None,
) -> Path:
    """Write a program as an artefact: all of it or nothing. :func:`jazzmine_dspy.load` reads it.

    Args:
        program: What to write; its registry, heads and policy go with it, its LM does not.
        folder: Where; an artefact there is replaced.
        name: Name of the program; the folder's where None.
        facts: What the manifest says beside hashes: dataset, recipe, LM, scores. None says what the program
            knows of itself: the LM (bound, or configured in DSPy) and the embedder, without settings or addresses, its
            shape, how many demonstrations each predictor has, and which are worded anew.
        run: Times, costs and dates: written to ``run.json``, which no hash covers.
        examples: Texts with their flows that recall uses beside the flows' own; None takes those of the bound recall.

    Returns:
        The folder.

    Raises:
        ArtifactError: the folder cannot be written, or holds something else than a program.

    Example:
        >>> import tempfile
        >>> from jazzmine_dspy import FlowRegistry, TurnProgram, load, save
        >>> program = TurnProgram(FlowRegistry([{"name": "track_order", "description": "Tell where an order is."}]))
        >>> with tempfile.TemporaryDirectory() as place:
        ...     loaded = load(save(program, f"{place}/orders"), bind=False)
        >>> list(loaded.registry)
        ['track_order']
    """
    import yaml

    folder = Path(folder)
    check_target(folder)
    bare: dict[str, Any] = {"lm": None, "traces": [], "train": []}
    state = {key: value | bare for key, value in program.dump_state().items() if key in CONTRACTS}
    if examples is None:
        # The labelled turns among the texts of the bound recall, if it is an index of ours.
        examples = [
            {"text": point.text, "flow": point.flow, "conversation": point.conversation}
            for point in getattr(program.bindings.recall, "points", ())
            if point.kind == "turn"
        ]
    files: dict[str, bytes] = {
        # In their own order: an answer shown in another order of keys is another prompt than the one that was compiled.
        "program.json": pretty(state, sort=False),
        "policy.json": pretty(program.policy.model_dump(mode="json")),
        "flows.yaml": yaml.safe_dump(
            {**program.registry.habits, "flows": program.registry.to_json()},
            sort_keys=False,
            allow_unicode=True,
        ).encode(),
        "examples.jsonl": "".join(canonical_json(dict(example)) + "\n" for example in examples).encode(),
        **heads_to_files(program),
    }
    files[MANIFEST] = manifest_of(
        files,
        {
            "name": name or folder.resolve().name,
            "agent_id": program.registry.agent_id,
            "flows": program.registry.checksum,
            **(_known(program) if facts is None else facts),
        },
    )
    files["run.json"] = pretty(dict(run or {}))
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        place = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        new, old = place / "new", place / "old"
        try:
            new.mkdir()
            for file, content in files.items():
                (new / file).write_bytes(content)
            new.chmod(0o755)
            # A crash between the two renames leaves the old program in the hidden folder.
            with unreplaced(folder):
                if folder.exists():
                    folder.rename(old)
                try:
                    new.rename(folder)
                except OSError:
                    if old.exists():
                        old.rename(folder)
                    raise
        finally:
            shutil.rmtree(place, ignore_errors=True)
    except OSError as error:
        raise ArtifactError(
            f"Cannot write the program: {error.strerror}",
            where=str(folder),
            remedy="Free space, or name another --out.",
        ) from error
    return folder


def _known(program: TurnProgram) -> dict[str, Any]:
    """What a program says of itself: whom it asks, and what was done to its prompts."""
    embedder, names = program.bindings.embedder, program.active_predictors()
    lm = program.bindings.lm_for(program.predictor(names[0])) if names else program.bindings.lm
    named = getattr(embedder, "model", None)
    states = states_of(program)
    plain = {name: dspy.Predict(CONTRACTS[name].signature).dump_state()["signature"] for name in names}
    return {
        "dspy": dspy.__version__,
        "shape": program.shape,
        "lm": None if lm is None else {"model": lm.model, "settings": _settings(lm)},
        "embedder": None
        if embedder is None or named is None
        else {"model": named, "fingerprint": embedder.fingerprint},
        "demonstrations": {name: len(states[name]["demos"]) for name in names},
        "reworded": [name for name in names if states[name]["signature"] != plain[name]],
    }


def _settings(lm: dspy.BaseLM) -> dict[str, Any]:
    """The settings that another process binds the model with; secrets are left to its environment."""
    return {
        name: value
        for name, value in lm.kwargs.items()
        if isinstance(value, str | int | float) and not is_secret(name, value)
    }


def check_target(folder: str | Path) -> None:
    """Refuse a folder that holds something other than a program.

    Raises:
        ArtifactError: the folder exists, is not empty and holds no program, or it is the working folder.
    """
    folder = Path(folder)
    with unreplaced(folder):
        if folder.resolve() == Path.cwd().resolve() or (folder.exists() and not folder.is_dir()):
            raise ArtifactError(
                "A program needs a folder of its own", where=str(folder), remedy="Name another --out."
            )
        if folder.is_dir() and any(folder.iterdir()) and not (folder / MANIFEST).is_file():
            raise ArtifactError(
                "The folder contains something other than a program, which would be lost",
                where=str(folder),
                remedy="Name another --out, or empty it.",
            )
