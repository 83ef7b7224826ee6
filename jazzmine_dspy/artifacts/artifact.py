"""A compiled program on disk: JSON and safetensors, checked by hash before anything of it is read."""

from __future__ import annotations

import json
import logging
import os
import shutil
import tempfile
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from jazzmine_dspy import __version__
from jazzmine_dspy.models._base import canonical_json, sha256
from jazzmine_dspy.models.errors import ArtifactError, EmbeddingError
from jazzmine_dspy.models.registry import FlowRegistry
from jazzmine_dspy.program.heads import SelectionHead
from jazzmine_dspy.program.policy import Policy
from jazzmine_dspy.program.turn import TurnProgram
from jazzmine_dspy.signatures.contract import fingerprints

if TYPE_CHECKING:
    from jazzmine_dspy.memory.procedural.ranking import Settings

FORMAT = 2
"""Layout of an artefact that this version reads and writes."""

_REQUIRED = ("program.json", "gates.json", "flows.yaml", "examples.jsonl")

log = logging.getLogger("jazzmine_dspy")


class Loaded(NamedTuple):
    """A program and what its manifest says."""

    program: TurnProgram
    manifest: dict[str, Any]
    path: Path


def save(
    program: TurnProgram,
    folder: str | Path,
    *,
    name: str,
    facts: Mapping[str, Any],
    run: Mapping[str, Any],
    examples: list[dict[str, str]] | None = None,
) -> Path:
    """Write a program as an artefact: all of it or nothing.

    Args:
        program: What to write; its registry, head and policy go with it, its LM does not.
        folder: Where; an artefact there is replaced.
        name: Name of the program.
        facts: What the manifest says beside hashes: dataset, recipe, LM, scores.
        run: Times, costs and dates: written to ``run.json``, which no hash covers.
        examples: Texts with their flows that recall uses beside the flows' own.

    Raises:
        ArtifactError: the folder cannot be written.
    """  # fmt: skip
    import yaml

    folder = Path(folder)
    check_target(folder)
    state = {key: _clean(value) for key, value in program.dump_state().items() if key != "policy"}
    files: dict[str, bytes] = {
        "program.json": _pretty(state),
        "gates.json": _pretty(program.policy.model_dump(mode="json")),
        "flows.yaml": yaml.safe_dump(
            {"flows": program.registry.to_json()}, sort_keys=False, allow_unicode=True
        ).encode(),
        "examples.jsonl": "".join(canonical_json(example) + "\n" for example in examples or []).encode(),
    }
    head = program.bindings.head
    if isinstance(head, SelectionHead):
        files["heads.safetensors"] = head.to_bytes()
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "name": name,
        "code": __version__,
        "signatures": fingerprints(),
        "flows": program.registry.checksum,
        "agent_id": program.registry.agent_id,
        "files": {file: sha256(content) for file, content in files.items()},
        **facts,
    }
    manifest["sha256"] = sha256(manifest)
    files["manifest.json"] = _pretty(manifest)
    files["run.json"] = _pretty(dict(run))
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        try:
            for file, content in files.items():
                (fresh / file).write_bytes(content)
            fresh.chmod(0o755)
            _swap(fresh, folder)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    except OSError as error:
        raise ArtifactError(
            f"Cannot write the program: {error.strerror}",
            where=str(folder),
            remedy="Free space, or name another --out.",
        ) from error
    return folder


def check_target(folder: str | Path) -> None:
    """Refuse to write a program over what is none.

    Raises:
        ArtifactError: the folder exists, is not empty and holds no program, or it is the working folder.
    """
    folder = Path(folder)
    if folder.resolve() == Path.cwd().resolve() or (folder.exists() and not folder.is_dir()):
        raise ArtifactError(
            "A program needs a folder of its own", where=str(folder), remedy="Name another --out."
        )
    if folder.is_dir() and any(folder.iterdir()) and not (folder / "manifest.json").is_file():
        raise ArtifactError(
            "The folder holds something else than a program, which would be lost",
            where=str(folder),
            remedy="Name another --out, or empty it.",
        )


def _swap(fresh: Path, folder: Path) -> None:
    """Put the new folder in the old one's place; a crash between leaves the old one beside it."""
    if folder.exists():
        old = folder.with_name(f".{folder.name}-old-{os.getpid()}")
        folder.rename(old)
        fresh.rename(folder)
        shutil.rmtree(old, ignore_errors=True)
    else:
        fresh.rename(folder)


def _clean(state: Any) -> Any:
    return {**state, "lm": None, "traces": [], "train": []} if isinstance(state, dict) else state


def _pretty(data: Any) -> bytes:
    return (json.dumps(data, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def find(name: str | Path) -> Path:
    """The folder of a program: a path, a project's ``optimize/programs/NAME``, a packaged one, or MLflow's.

    Raises:
        ArtifactError: nowhere found.
    """
    text = str(name)
    if text.startswith(("models:/", "runs:/", "mlflow-artifacts:/")):
        from mlflow.artifacts import download_artifacts

        return Path(download_artifacts(artifact_uri=text))
    packaged = Path(str(resources.files("jazzmine_dspy"))) / "_programs" / text
    source = Path(str(resources.files("jazzmine_dspy"))).parent / "optimize" / "programs" / text
    places = [Path(name), Path("optimize/programs") / text, packaged, source]
    for place in places:
        if (place / "manifest.json").is_file():
            return place
    raise ArtifactError(
        f"No program {text!r}", where=", ".join(str(place) for place in places[:2]),
        remedy="Name a folder with a manifest.json; 'jazzmine-dspy optimize RECIPE' makes one.",
    )  # fmt: skip


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of an artefact, after every file's hash and every signature has been checked.

    Raises:
        ArtifactError: a byte was changed, a file is missing, the format is newer or older, or a signature is another.
    """
    path = folder / "manifest.json"
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
        return manifest.get("sha256") == sha256(content) and raw == _pretty(manifest)
    except ValueError:
        # A flipped byte can make a number infinite, which is no JSON.
        return False


def load(
    path: str | Path,
    *,
    flows: Any = None,
    lm: Any = None,
    embedder: Any = None,
    bind: bool = True,
) -> TurnProgram:
    """Load a compiled program, ready to decide.

    Args:
        path: Folder, name of a project's or a packaged program, or an MLflow URI.
        flows: Other flows than the compiled ones: a registry, a mapping, a list, or a YAML file. New flows
            work through their examples; flows left out are never chosen.
        lm: A ``dspy.LM``, or a name that DSPy takes; None leaves it to ``dspy.configure``.
        embedder: Another embedder, or the name of a fastembed model; None is the one compiled with.
        bind: False leaves embedder and recall unbound.

    Raises:
        ArtifactError: damaged, newer, or of other signatures; the message says what to do.
    """  # fmt: skip
    return load_with_manifest(path, flows=flows, lm=lm, embedder=embedder, bind=bind).program


def load_with_manifest(
    path: str | Path, *, flows: Any = None, lm: Any = None, embedder: Any = None, bind: bool = True
) -> Loaded:
    """As :func:`load`, with the manifest beside the program."""
    folder = find(path)
    manifest = read_manifest(folder)
    agent_id = str(manifest.get("agent_id", ""))
    if flows is None:
        registry = FlowRegistry.from_yaml(folder / "flows.yaml", agent_id=agent_id)
    elif isinstance(flows, FlowRegistry):
        registry = flows
    elif isinstance(flows, str | Path):
        registry = FlowRegistry.from_yaml(flows, agent_id=agent_id)
    else:
        registry = FlowRegistry(flows, agent_id=agent_id)
    policy = Policy.model_validate_json((folder / "gates.json").read_bytes())
    program = TurnProgram(registry, policy=policy)
    program.load_state(json.loads((folder / "program.json").read_bytes()))
    # A file that the manifest does not name has no hash that could vouch for it.
    if "heads.safetensors" in manifest["files"]:
        program.bind(head=SelectionHead.from_bytes((folder / "heads.safetensors").read_bytes()))
    if lm is not None:
        from jazzmine_dspy.lm import resolve_lm

        program.bind(lm=resolve_lm(lm))
        compiled_for = manifest.get("lm", {}).get("model")
        runs_with = program.bindings.lm.model if program.bindings.lm else None
        if compiled_for and runs_with != compiled_for:
            log.warning(
                "program %r was compiled for %s and runs with %s", manifest["name"], compiled_for, runs_with
            )
    if bind:
        from jazzmine_dspy.memory.procedural.points import read_examples

        examples = [
            {"text": text, "flow": flow, "conversation": conversation}
            for text, flow, conversation in read_examples(folder / "examples.jsonl")
        ]
        bind_recall(program, embedder or manifest.get("embedder", {}).get("model", "minilm"), examples)
    _check_embedder(program, manifest)
    return Loaded(program, manifest, folder)


def _check_embedder(program: TurnProgram, manifest: dict[str, Any]) -> None:
    """Let the head go where the embedder is another than it was trained on: its numbers would mean nothing."""
    embedder, trained = program.bindings.embedder, (manifest.get("embedder") or {}).get("fingerprint")
    if embedder is None or trained is None or program.bindings.head is None:
        return
    # A model that is missing is left bound: asked, it fails, and decisions say so.
    if embedder.fingerprint != trained and not embedder.fingerprint.endswith(":absent"):
        log.warning("the head was trained on %s and not on %s; it is left out", trained, embedder.fingerprint)
        program.bind(head=None)


def bind_recall(program: TurnProgram, embedder: Any, examples: list[dict[str, str]] | None = None) -> None:
    """Bind an embedder and an index of the program's flows; where the model is missing, say so and go on.

    The index ranks as the program's policy says. Without an embedder the heads decline and recall fails, and decisions
    are degraded with that cause.

    Args:
        program: What to bind them to.
        embedder: An embedder, or the name of a fastembed model.
        examples: Further texts for the index, with their flows; those of flows that are not there are left out.
    """
    from jazzmine_dspy.memory.procedural.embed import FastembedEmbedder
    from jazzmine_dspy.memory.procedural.recall import FlowIndex

    try:
        model = FastembedEmbedder(embedder) if isinstance(embedder, str) else embedder
        known = [item for item in examples or [] if item["flow"] in program.registry]
        texts = [(item["text"], item["flow"], item.get("conversation", "")) for item in known]
        settings = recall_settings(program.policy.recall)
        program.bind(
            embedder=model, recall=FlowIndex(program.registry, model, examples=texts, settings=settings)
        )
    except EmbeddingError as error:
        log.warning("no embedder is bound: %s", error)


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
