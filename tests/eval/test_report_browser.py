"""The shipped report in a real browser (V4)."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import escape, unescape
from pathlib import Path

import pytest

from jazzmine_dspy.eval.report.document import page

pytestmark = pytest.mark.row("V4")

SHIPPED = Path(__file__).resolve().parents[2] / "eval" / "reports" / "support" / "report.json"

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium to look at the page with")
@pytest.mark.parametrize("width", [390, 1200])
def test_a_browser_shows_the_page(tmp_path: Path, width: int) -> None:
    """No error, no request beside the page, and nothing that sticks out of a narrow screen."""
    frame = tmp_path / "frame.html"
    look = """
      const frame = document.querySelector("iframe"), held = frame.contentDocument;
      const texts = [...held.querySelectorAll("td, dd, h1, h2, p, pre")].map(e => getComputedStyle(e).fontSize);
      document.body.dataset.found = JSON.stringify({
        wide: held.documentElement.scrollWidth, title: held.title, sections: held.querySelectorAll("section").length,
        asked: frame.contentWindow.performance.getEntriesByType("resource").length,
        smallest: Math.min(...texts.map(parseFloat)),
      });
    """
    held = escape(page(json.loads(SHIPPED.read_text("utf-8"))))
    frame.write_text(
        f'<!doctype html><body><iframe style="border:0;width:{width}px;height:900px" srcdoc="{held}"></iframe>'
        f"<script>window.onload = () => {{ {look} }};</script>",
        "utf-8",
    )
    done = subprocess.run(
        [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
         f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1400,1000", "--dump-dom", frame.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    told = re.search(r'data-found="([^"]*)"', done.stdout)
    assert told is not None
    found = json.loads(unescape(told[1]))
    assert found["title"].startswith("support")
    assert found["sections"] > 8
    assert found["asked"] == 0
    assert found["wide"] <= width
    assert found["smallest"] >= 12
    assert not [line for line in done.stderr.splitlines() if "CONSOLE" in line]
