"""What packages register: by name once, checked when it is added, offered by entry points."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.models.errors import ExtensionError
from jazzmine_dspy.models.extensions import Extensions

GROUP = "jazzmine_dspy.colours"


def number(name: str, thing: Any) -> int:
    if not isinstance(thing, int):
        raise ValueError("it is no number")
    return thing


@pytest.fixture
def colours() -> Extensions[int]:
    held = Extensions("colour", GROUP, number)
    held.add("red", 1, origin="jazzmine_dspy.red")
    return held


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Install a package in a folder of its own: its modules, and the entry points that it offers."""
    monkeypatch.syspath_prepend(tmp_path)

    def install(name: str, points: dict[str, str], **modules: str) -> None:
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", "utf-8")
        lines = [f"[{GROUP}]", *(f"{key} = {value}" for key, value in points.items())]
        (info / "entry_points.txt").write_text("\n".join(lines) + "\n", "utf-8")
        for module, text in modules.items():
            (tmp_path / f"{module}.py").write_text(text, "utf-8")

    before = set(sys.modules)
    yield install
    for module in set(sys.modules) - before:
        del sys.modules[module]


def test_ours_come_first_and_the_others_by_name(colours: Extensions[int]) -> None:
    colours.add("violet", 3, origin="acme.Violet")
    colours.add("blue", 2, origin="acme.Blue")
    assert dict(colours) == {"red": 1, "blue": 2, "violet": 3}
    assert list(colours) == ["red", "blue", "violet"]
    assert "green" not in colours
    assert len(colours) == 3


@pytest.mark.row("X1")
def test_a_name_is_taken_once(colours: Extensions[int]) -> None:
    with pytest.raises(
        ExtensionError, match=r"'red' is taken twice: .* of jazzmine-dspy itself in .*acme\.Red"
    ):
        colours.add("red", 5, origin="acme.Red")
    colours.add("blue", 2, origin="acme.Blue")
    with pytest.raises(ExtensionError, match=r"in acme\.Blue, and one in other\.Blue .*another name"):
        colours.add("blue", 3, origin="other.Blue")
    # A cell of a notebook that is run again.
    colours.add("blue", 4, origin="acme.Blue")
    assert (colours["red"], colours["blue"]) == (1, 4)


@pytest.mark.parametrize("name", ["", "Red", "two words", "1st", "-x", "x" * 65, "rot\n", None])
def test_what_is_no_name_is_refused(name: Any, colours: Extensions[int]) -> None:
    with pytest.raises(ExtensionError, match="cannot be the name of a colour"):
        colours.add(name, 1, origin="acme.X")


def test_what_cannot_be_used_is_refused_with_the_reason(colours: Extensions[int]) -> None:
    with pytest.raises(ExtensionError, match=r"'blue' cannot be used: it is no number \(acme\.Blue\)"):
        colours.add("blue", "b", origin="acme.Blue")
    assert "blue" not in colours


def test_an_installed_package_is_imported_when_it_is_asked_for(
    colours: Extensions[int], package: Any
) -> None:
    package("acme-colours", {"blue": "acme_colours:BLUE"}, acme_colours="BLUE = 2\n")
    assert list(colours) == ["red", "blue"]
    assert colours["red"] == 1
    assert "acme_colours" not in sys.modules
    assert colours["blue"] == 2


@pytest.mark.parametrize(
    ("points", "text", "asked", "message"),
    [
        ({"blue": "acme_colours:BLUE"}, "BLUE = 'b'\n", "blue", "cannot be used: it is no number"),
        ({"blue": "acme_colours:GREEN"}, "BLUE = 2\n", "blue", "AttributeError: .*GREEN"),
        ({"blue": "acme_colours"}, "BLUE = 2\n", "blue", "importing acme_colours registers no colour"),
        ({"blue": "acme_colours"}, "1 / 0\n", "blue", "ZeroDivisionError: .*Fix the package"),
        ({"Blue": "acme_colours:BLUE"}, "BLUE = 2\n", "Blue", "cannot be the name of a colour"),
    ],
)
def test_a_package_that_cannot_be_used_is_told(
    points: dict[str, str], text: str, asked: str, message: str, colours: Extensions[int], package: Any
) -> None:
    package("acme-colours", points, acme_colours=text)
    for _ in range(2):
        with pytest.raises(ExtensionError, match=message):
            colours[asked]


def test_two_packages_with_one_name_are_told(colours: Extensions[int], package: Any) -> None:
    package("acme-colours", {"blue": "acme_colours:BLUE"}, acme_colours="BLUE = 2\n")
    package("other-colours", {"blue": "other_colours:BLUE"}, other_colours="BLUE = 3\n")
    for _ in range(2):
        with pytest.raises(
            ExtensionError, match=r"'blue' is taken twice: .*acme.*other|'blue' .*other.*acme"
        ):
            colours["blue"]
    assert (colours["red"], list(colours)) == (1, ["red", "blue"])


def test_a_package_cannot_take_a_name_of_ours(
    colours: Extensions[int], package: Any, caplog: pytest.LogCaptureFixture
) -> None:
    points = {"red": "acme_colours:RED", "blue": "acme_colours:BLUE"}
    package("acme-colours", points, acme_colours="RED = 2\nBLUE = 3\n")
    assert (colours["red"], colours["blue"]) == (1, 3)
    [told] = [record.getMessage() for record in caplog.records]
    assert "'red' is taken twice: there is a colour of jazzmine-dspy itself" in told
    assert "of acme-colours" in told


def test_a_package_against_what_was_registered_before_it(colours: Extensions[int], package: Any) -> None:
    package("acme-colours", {"blue": "acme_colours:BLUE"}, acme_colours="BLUE = 2\n")
    colours.add("blue", 7, origin="notebook.Blue")
    with pytest.raises(ExtensionError, match=r"in notebook\.Blue, and one in acme_colours\.BLUE"):
        colours["blue"]
