"""Draw the LangGraph graph into docs/guide/langgraph.md, or check that the page shows it as it is.

Run: .venv/bin/python tools/langgraph_picture.py [--check]
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from jazzmine_dspy import FlowRegistry, Runtime, TurnProgram
from jazzmine_dspy.integrations.langgraph import build_graph

PAGE = Path(__file__).resolve().parent.parent / "docs" / "guide" / "langgraph.md"
_PLACE = re.compile(r"(<!-- picture -->\n).*?(<!-- /picture -->)", re.DOTALL)


def picture() -> str:
    """The graph as a Mermaid block."""
    flows = FlowRegistry([{"name": "any", "description": "Any flow."}])
    graph = build_graph(Runtime(TurnProgram(flows)), None).get_graph()
    return f"```mermaid\n{graph.draw_mermaid(with_styles=False).strip()}\n```\n".replace("\t", "  ")


def drawn(page: str) -> str:
    """The page with the picture in its place."""
    return _PLACE.sub(lambda place: place[1] + picture() + place[2], page)


def main(check: bool) -> int:
    page = PAGE.read_text("utf-8")
    if check and drawn(page) != page:
        print("The picture is out of date: run tools/langgraph_picture.py")
        return 1
    PAGE.write_text(drawn(page), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
