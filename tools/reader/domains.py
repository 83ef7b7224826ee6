"""Invented domains: their flows, and what their customers say."""

from __future__ import annotations

import io
import json
import lzma
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
ARCHIVE = Path(__file__).parent / "domains.tar.xz"


@dataclass(frozen=True)
class Domain:
    """One invented business.

    Args:
        name: Its name.
        region, currency: Where it is, as in ``flows.yaml``.
        flows: Definitions by name, in order; each has ``slots`` with name, type, description, options, ask.
        say: What customers say, as ``tools/reader/FORMAT.md`` describes it.
    """

    name: str
    region: str
    currency: str
    flows: dict[str, dict[str, Any]]
    say: dict[str, Any] = field(repr=False)

    @classmethod
    def read(cls, text: str) -> Domain:
        """A domain from its YAML."""
        data = yaml.load(text, Loader=LOADER)
        flows = {each["name"]: each for each in data["flows"]}
        return cls(data["name"], data.get("region", ""), data.get("currency", ""), flows, data["say"])

    def slots(self, flow: str) -> list[dict[str, Any]]:
        """The slots of a flow."""
        return list(self.flows[flow].get("slots") or [])

    def slot(self, flow: str, name: str) -> dict[str, Any]:
        """One slot of a flow."""
        return next(each for each in self.slots(flow) if each["name"] == name)

    def wordings(self, flow: str, kind: str) -> list[str]:
        """Wordings of a kind for a flow; none where there are none."""
        said = (self.say.get(flow) or {}).get(kind) or []
        return [each for each in said if isinstance(each, str)]

    def of_slot(self, flow: str, slot: str) -> dict[str, Any]:
        """What is said about a slot."""
        return (self.say.get("slots") or {}).get(f"{flow}.{slot}") or {}

    @property
    def anytime(self) -> dict[str, Any]:
        """What is said whatever runs."""
        return self.say.get("anytime") or {}


def load_domains(place: str | Path = ARCHIVE) -> list[Domain]:
    """The domains of an archive, or of a folder of YAML files, by name, with the indirect wordings beside it."""
    domains = sorted((Domain.read(text) for text in _texts(Path(place))), key=lambda domain: domain.name)
    beside = Path(place).with_name("indirect.jsonl.xz")
    if beside.exists():
        _add(domains, lzma.decompress(beside.read_bytes()).decode().splitlines())
    return domains


def _add(domains: list[Domain], lines: list[str]) -> None:
    """Adds wordings to what is said: a line a flow, or a line a domain for messages with two wishes."""
    by_name = {domain.name: domain for domain in domains}
    for row in map(json.loads, lines):
        domain = by_name[row["domain"]]
        said = domain.say.setdefault(row["flow"], {}) if "flow" in row else domain.anytime
        for kind in ("open", "not_wanted", "more", "two"):
            if row.get(kind):
                said[kind] = [*(said.get(kind) or []), *row[kind]]


def _texts(place: Path) -> Iterator[str]:
    if place.is_dir():
        yield from (path.read_text("utf-8") for path in sorted(place.glob("*.yaml")))
        return
    with tarfile.open(place) as archive:
        for member in archive.getmembers():
            if (content := archive.extractfile(member)) is not None:
                yield io.TextIOWrapper(content, encoding="utf-8").read()
