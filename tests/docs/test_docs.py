"""The README and the pages of `docs/` say what is so: their examples run, their links lead somewhere, and their
tables name every key, setting and option of the code."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from pydantic import BaseModel

import redis_servers

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "conformance" / "README.md",
    ROOT / "tools" / "answer_server.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
BENCHMARKS = sorted((ROOT / "eval" / "benchmarks").glob("**/README.md"))
LINKED = [*PAGES, *BENCHMARKS, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
COMPILED = ROOT / "optimize" / "programs" / "support" / "manifest.json"
MADE_LATER: set[str] = set()
LONGEST = 120

_FENCE = re.compile(r"^(`{3,})([\w ]*)\n(.*?)^\1$", re.MULTILINE | re.DOTALL)
_NEEDS_PROGRAM = re.compile(r'^(?!\s*#).*\b(?:load|find)\("support"', re.MULTILINE)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


class Block(NamedTuple):
    """A fenced block: its language, its text, and what follows it."""

    where: str
    kind: str
    text: str
    output: str | None


def _blocks(page: Path) -> Iterator[Block]:
    text = page.read_text("utf-8")
    found = list(_FENCE.finditer(text))
    for match, after in zip_longest(found, found[1:]):
        line = text.count("\n", 0, match.start()) + 1
        follows = after is not None and after[2] == "output" and not text[match.end() : after.start()].strip()
        told = after[3] if follows else None
        yield Block(f"{page.relative_to(ROOT).as_posix()}:{line}", match[2], match[3], told)


def _of(*kinds: str) -> list[Any]:
    blocks = [block for page in PAGES for block in _blocks(page) if block.kind in kinds]
    return [pytest.param(block, id=block.where) for block in blocks]


def _page(name: str) -> str:
    [page] = (ROOT / "docs").glob(f"*/{name}")
    return page.read_text("utf-8")


# --- examples ----------------------------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder with the repository's datasets and recipes, in which the test runs."""
    shutil.copytree(ROOT / "datasets", tmp_path / "datasets")
    shutil.copytree(ROOT / "optimize" / "recipes", tmp_path / "optimize" / "recipes")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def redis_url() -> Iterator[str]:
    """A server of the tests' own, for examples that expect one to run."""
    with redis_servers.server() as running:
        yield running.url


@pytest.fixture
def closed_registries(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an example registers is forgotten after it."""
    from jazzmine_dspy.models import SLOT_TYPES
    from jazzmine_dspy.optimize.optimizers.registry import OPTIMIZERS
    from jazzmine_dspy.program.decider import DECIDERS

    for registry in (SLOT_TYPES, OPTIMIZERS, DECIDERS):
        for name in ("_values", "_origins"):
            monkeypatch.setattr(registry, name, dict(getattr(registry, name)))


@pytest.mark.parametrize("block", _of("python"))
def test_a_python_block_runs_as_it_stands(
    block: Block,
    project: Path,
    closed_registries: None,
    capsys: Any,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    if _NEEDS_PROGRAM.search(block.text) and not COMPILED.is_file():
        pytest.skip("the shipped program is not compiled yet: make report")
    if "JAZZMINE_REDIS_URL" in block.text:
        monkeypatch.setenv("JAZZMINE_REDIS_URL", request.getfixturevalue("redis_url"))
    exec(compile(block.text, block.where, "exec"), {"__name__": "__main__"})
    if block.output is not None:
        assert capsys.readouterr().out == block.output


def test_every_block_says_what_it_is() -> None:
    known = {"python", "output", "sh", "text", "json", "toml", "yaml", "mermaid"}
    wrong = [block.where for page in PAGES for block in _blocks(page) if block.kind not in known]
    assert wrong == []


def test_every_output_follows_the_example_that_prints_it() -> None:
    for page in PAGES:
        blocks = list(_blocks(page))
        outputs = sum(block.kind == "output" for block in blocks)
        assert outputs == sum(block.kind == "python" and block.output is not None for block in blocks), page


@pytest.mark.parametrize("block", _of("json"))
def test_a_json_block_is_json(block: Block) -> None:
    from jazzmine_dspy.datasets import LabelledConversation

    data = json.loads(block.text)
    if "turns" in data:
        LabelledConversation.model_validate(data)


@pytest.mark.parametrize("block", _of("toml"))
def test_a_toml_block_is_a_recipe(block: Block) -> None:
    from jazzmine_dspy.lm import resolve_lm
    from jazzmine_dspy.optimize.recipe import Recipe

    recipe = Recipe.model_validate(tomllib.loads(block.text))
    resolve_lm(recipe.lm, **recipe.lm_settings)


@pytest.mark.parametrize("block", _of("yaml"))
def test_a_yaml_block_holds_flows(block: Block) -> None:
    from jazzmine_dspy import FlowRegistry

    assert len(FlowRegistry(yaml.safe_load(block.text)["flows"]))


# --- links and form ----------------------------------------------------------------------------------------


def _without_blocks(page: Path) -> str:
    return _FENCE.sub("", page.read_text("utf-8"))


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", _without_blocks(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", LINKED, ids=lambda page: page.name)
def test_relative_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in _LINK.findall(_without_blocks(page)):
        path, _, anchor = link.partition("#")
        if "://" in path:
            continue
        target = (page.parent / path).resolve() if path else page
        if not target.exists():
            if target.relative_to(ROOT).as_posix() not in MADE_LATER:
                broken.append(link)
        elif anchor and anchor not in _anchors(target):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", LINKED, ids=lambda page: page.name)
def test_lines_are_not_too_long(page: Path) -> None:
    lines = _without_blocks(page).splitlines()
    # Between marks stands what a command printed.
    shown = re.sub(r"<!-- (\w+) -->.*?<!-- /\1 -->", "", "\n".join(lines), flags=re.DOTALL).splitlines()
    assert [line for line in shown if len(line) > LONGEST] == []


@pytest.mark.parametrize("mark", ["conversation", "figures"])
def test_what_commands_print_stands_between_marks(mark: str) -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    assert text.count(f"<!-- {mark} -->") == text.count(f"<!-- /{mark} -->") == 1


def test_the_two_commands_come_first() -> None:
    first = next(_blocks(ROOT / "README.md"))
    commands = [line.partition("#")[0].strip() for line in first.text.splitlines()]
    assert commands == ["make quickstart", "make test"]


def test_files_that_the_design_names_exist() -> None:
    named = re.findall(r"`(\w[\w/]*(?:\.py|/))`", _page("design.md"))
    assert len(named) > 10
    tops = [ROOT, ROOT / "jazzmine_dspy", ROOT / "jazzmine_dspy" / "program"]
    assert [name for name in named if not any((top / name).exists() for top in tops)] == []


# --- tables and the code -----------------------------------------------------------------------------------


def _rows(text: str) -> dict[str, str]:
    """Table rows by each name in backticks in their first cell; the whole row as value."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith("|"):
            for name in re.findall(r"`([^`]+)`", line.split("|")[1]):
                found.setdefault(name, line)
    return found


def _keys(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from _keys(kind, f"{prefix}{name}.")
        else:
            yield prefix + name, field


def test_every_key_of_a_recipe_is_documented_with_its_default() -> None:
    from jazzmine_dspy.optimize.recipe import Recipe

    rows = _rows(_page("recipe-keys.md").partition("## Every key")[2].partition("\n## ")[0])
    for name, field in _keys(Recipe):
        default = None if field.is_required() else field.get_default(call_default_factory=True)
        told = "none" if default is None else f"`{json.dumps(default)}`"
        told = "required" if field.is_required() else told
        assert rows[name].split("|")[2].strip() == told, name


def test_every_key_of_flows_and_slots_is_documented() -> None:
    from jazzmine_dspy.models import SLOT_TYPES, Flow, Slot

    flows, _, slots = _page("flows.md").partition("## Keys of a slot")
    assert set(Flow.model_fields) <= set(_rows(flows))
    assert set(Slot.model_fields) <= set(_rows(slots))
    assert [name for name in SLOT_TYPES if f"`{name}`" not in slots] == []


def test_the_size_of_every_extra_is_in_the_readme() -> None:
    import tomllib

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    table = (ROOT / "README.md").read_text("utf-8").partition("<!-- install -->")[2]
    assert [name for name in extras if name != "dev" and f"| `.[{name}]` |" not in table] == []


def test_every_label_command_and_metric_is_documented() -> None:
    from jazzmine_dspy.datasets import Labels
    from jazzmine_dspy.eval.report.shown import LABELS
    from jazzmine_dspy.models import COMMAND_KINDS

    text = _page("datasets.md")
    assert [name for name in (*Labels.model_fields, *COMMAND_KINDS, *LABELS) if f"`{name}`" not in text] == []


def test_every_key_of_a_manifest_is_documented() -> None:
    if not COMPILED.is_file():
        pytest.skip("the shipped program is not compiled yet: make report")
    manifest = json.loads(COMPILED.read_text("utf-8"))
    page = _page("artifact.md")
    assert [name for name in (*manifest, *manifest["files"]) if f"`{name}`" not in page] == []


def test_every_next_step_and_part_of_an_outcome_is_documented() -> None:
    from typing import get_args

    from jazzmine_dspy.models.decision import StepKind
    from jazzmine_dspy.runtime.outcome import TurnOutcome

    rows = _rows(_page("runtime.md"))
    assert {*get_args(StepKind), *TurnOutcome.model_fields} <= set(rows)


def _commands(group: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _commands(command, f"{path}{name} ")
        else:
            yield path + name, command


def test_every_command_is_listed_and_explains_its_options() -> None:
    import typer

    from jazzmine_dspy.cli import app

    listed = _rows(_page("cli.md").partition("\n## ")[0])
    for name, command in _commands(typer.main.get_command(app)):
        assert name in listed, f"docs/guide/cli.md does not list {name!r}"
        assert command.help, name
        silent = [each.opts for each in command.params if each.name != "help" and not each.help]
        assert silent == [], f"{name}: options without help"


def _options(command: Any) -> list[str]:
    declared: Iterable[str] = (
        option for each in command.params for option in (*each.opts, *each.secondary_opts)
    )
    return [option for option in declared if option.startswith("-") and option != "--help"]


@pytest.mark.parametrize("block", _of("sh"))
def test_commands_of_shell_blocks_exist(block: Block) -> None:
    import typer

    from jazzmine_dspy.cli import app

    known = {name: _options(command) for name, command in _commands(typer.main.get_command(app))}
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    for line in block.text.splitlines():
        called = line.partition(" #")[0]
        if match := re.search(r"(?:^|&& )make (\w+)", called):
            assert match[1] in targets, line
        if match := re.search(r"(?:^|&& )jazzmine-dspy (.*)", called):
            name = next(name for name in sorted(known, key=len, reverse=True) if match[1].startswith(name))
            used = re.findall(r"(?<!\S)--[a-z-]+", match[1].partition("&&")[0])
            assert [option for option in used if option not in known[name]] == [], line
