"""``datasets split``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from jazzmine_dspy.cli._output import AsJson, output

if TYPE_CHECKING:
    from jazzmine_dspy.datasets import LabelledConversation, Problem, Role


def split(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder with flows.yaml and conversations.jsonl.")
    ],
    seed: Annotated[int, typer.Option("--seed", help="Seed of the division.")] = 0,
    shares: Annotated[
        str,
        typer.Option(
            "--shares",
            metavar="ROLE=SHARE,…",
            help="Such as train=0.7,dev_a=0.15,dev_b=0.15. Default: train=0.5,dev_a=0.15,dev_b=0.15,test=0.2.",
        ),
    ] = "",
    keep: Annotated[
        bool,
        typer.Option("--keep", help="Keep the roles that splits.json has, edited or not; divide the rest."),
    ] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Divide anew although sound splits are in force.")
    ] = False,
    _json: AsJson = False,
) -> None:
    """Give each conversation a role, stratified, and lock the roles with a hash in splits.json.

    Sound splits stay, unless --replace is said: scores on other splits cannot be compared. Splits that were
    edited by hand or are broken are written anew, or taken over with --keep.
    """
    from jazzmine_dspy.datasets import FRACTIONS, ROLES, write_splits
    from jazzmine_dspy.datasets.schema import SPLITS_FILE
    from jazzmine_dspy.datasets.split import divide, group, roles_hash
    from jazzmine_dspy.models.errors import DatasetError

    conversations, sound, held = _read(folder)
    fractions = _fractions(shares) if shares else FRACTIONS
    kept = held if keep else {}
    roles = divide(conversations, seed=seed, fractions=fractions, fixed=kept)
    if sound and roles != held and not (replace or keep):
        raise DatasetError(
            "The splits are locked: other roles are in force",
            where=str(folder / SPLITS_FILE),
            remedy="Keep them, or say --replace and do not compare with earlier scores.",
        )
    path = write_splits(folder, roles, seed=seed, replace=replace or keep or not sound)
    counts = {role: sum(found == role for found in roles.values()) for role in ROLES}
    document = {
        "path": str(path),
        "seed": seed,
        "shares": dict(fractions),
        "kept": len(kept),
        "roles": counts,
    }
    output().document(document | {"sha256": roles_hash(group(roles))})
    told = ", ".join(f"{role} {count}" for role, count in counts.items())
    output().show(f"{path}: {len(roles)} conversations ({told}), seed {seed}, {len(kept)} roles kept")
    for role, share in fractions.items():
        if share and not counts[role]:
            output().warn(f"the split {role!r} is empty: there are too few conversations")


def _read(folder: Path) -> tuple[list[LabelledConversation], bool, dict[str, Role]]:
    """The conversations, whether their splits are sound, and the roles that ``splits.json`` gives them."""
    from jazzmine_dspy.datasets.reader import read
    from jazzmine_dspy.datasets.schema import SPLITS_FILE

    path = folder / SPLITS_FILE
    faults: list[Problem] = []

    def report(problem: Problem) -> None:
        # A conversation without a role is told at its line; what is wrong is the splits all the same.
        if problem.file != str(path) and "has no role" not in problem.message:
            raise problem.error()
        faults.append(problem)

    reading = read(folder, report)
    ids = {conversation.id for conversation in reading.conversations}
    return reading.conversations, path.exists() and not faults, _held(path, ids)


def _held(path: Path, ids: set[str]) -> dict[str, Role]:
    """Roles in a file whose hash may be wrong; what has no or two roles, or is no conversation, is left out."""
    from jazzmine_dspy.datasets.schema import ROLES
    from jazzmine_dspy.models.parsing import from_json, read_file

    try:
        data = from_json(read_file(path))["roles"]
        named = [(name, role) for role in ROLES for name in data.get(role, ())]
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return {}
    names = [name for name, _ in named]
    return {name: role for name, role in named if name in ids and names.count(name) == 1}


def _fractions(text: str) -> dict[Role, float]:
    from jazzmine_dspy.datasets.schema import Role

    found: dict[Role, float] = {}
    for item in text.split(","):
        name, _, share = item.strip().partition("=")
        role: Role | None = next((role for role in get_args(Role) if role == name), None)
        try:
            if role is None or role in found:
                raise ValueError
            found[role] = float(share)
        except ValueError:
            known = ", ".join(get_args(Role))
            raise typer.BadParameter(
                f"{item.strip()!r} is not of the form ROLE=SHARE with another of: {known}",
                param_hint="--shares",
            ) from None
    return found
