"""Reports in a real browser (V4)."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import escape, unescape
from pathlib import Path
from typing import Any

import pytest

from jazzmine_dspy.datasets import Example
from jazzmine_dspy.eval.report import document
from jazzmine_dspy.eval.report.document import _page
from tests.support.report_runs import runs

pytestmark = pytest.mark.row("V4")

SHIPPED = Path(__file__).resolve().parents[2] / "eval" / "reports" / "support" / "report.json"

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

# Upright texts of a plot that cover each other or its edge, and tables that are cut off on a wide screen.
LOOK = """
  const frame = document.querySelector("iframe"), held = frame.contentDocument;
  const texts = [...held.querySelectorAll("td, dd, h1, h2, p, pre")].map(e => getComputedStyle(e).fontSize);
  const covered = [], cut = [];
  for (const svg of held.querySelectorAll("svg")) {
    const edge = svg.closest("section").getBoundingClientRect();
    const upright = [...svg.querySelectorAll("text:not([transform])")];
    const boxes = upright.map(e => [e.textContent, e.getBoundingClientRect()]);
    boxes.forEach(([one, a], at) => {
      if (a.left < edge.left || (a.right > edge.right && !svg.closest(".wide"))) cut.push(one);
      for (const [other, b] of boxes.slice(0, at))
        if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 4 && b.top < a.bottom - 4)
          covered.push([svg.getAttribute("aria-label"), one, other]);
    });
  }
  const tables = [...held.querySelectorAll(".scroll")].filter(e => e.scrollWidth > e.clientWidth + 1);
  document.body.dataset.found = JSON.stringify({
    wide: held.documentElement.scrollWidth, title: held.title, sections: held.querySelectorAll("section").length,
    asked: frame.contentWindow.performance.getEntriesByType("resource").length,
    smallest: Math.min(...texts.map(parseFloat)), covered, cut,
    scrolled: tables.map(e => e.firstElementChild.id),
  });
"""


def _look(data: dict[str, Any], width: int, folder: Path) -> Any:
    """What a browser measures on the page of a report."""
    frame, held = folder / "frame.html", escape(_page(data))
    frame.write_text(
        f'<!doctype html><body><iframe style="border:0;width:{width}px;height:900px" srcdoc="{held}"></iframe>'
        f"<script>window.onload = () => {{ {LOOK} }};</script>",
        "utf-8",
    )
    done = subprocess.run(
        [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
         f"--user-data-dir={folder / 'profile'}", "--window-size=1400,1000", "--dump-dom", frame.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert not [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    told = re.search(r'data-found="([^"]*)"', done.stdout)
    assert told is not None
    return json.loads(unescape(told[1]))


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium to look at the page with")
@pytest.mark.parametrize("width", [390, 1200])
def test_a_browser_shows_the_page(tmp_path: Path, width: int) -> None:
    """No error, no request beside the page, and nothing that sticks out of a narrow screen."""
    found = _look(json.loads(SHIPPED.read_text("utf-8")), width, tmp_path)
    assert found["title"].startswith("support")
    assert found["sections"] > 8
    assert found["asked"] == 0
    assert found["wide"] <= width
    assert found["smallest"] >= 12
    assert (found["covered"], found["cut"]) == ([], [])
    assert width < 1200 or found["scrolled"] == []


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium to look at the page with")
@pytest.mark.parametrize("width", [390, 1200])
@pytest.mark.parametrize("which", ["local", "one", "crashed", "long"])
def test_no_text_of_a_plot_covers_another(
    which: str, width: int, tmp_path: Path, noisy: Any, support: list[Example], support_flows: list[str]
) -> None:
    found = _look(document(runs(noisy, support[:260], support_flows)[which]), width, tmp_path)
    assert found["wide"] <= width
    assert (found["covered"], found["cut"]) == ([], [])
    assert width < 1200 or found["scrolled"] == []
