"""A report's page, read as HTML."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "br"}


class Page(HTMLParser):
    """Tags, figures and tables of a page; fails on tags that are not closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.figures: list[tuple[str, str, str]] = []
        self.bare: list[str] = []
        self.tables: dict[str, list[list[str]]] = {}
        self.hints = 0
        self._numeric = False
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        held = dict(attrs)
        self.tags.append((tag, held))
        if tag in VOID:
            return
        self.open.append(tag)
        if tag == "table":
            self.tables[held["id"] or ""] = []
        elif tag == "tr":
            next(reversed(self.tables.values())).append([])
        elif tag in ("td", "th"):
            next(reversed(self.tables.values()))[-1].append("")
            self._numeric = tag == "td" and held.get("class") == "n"
        elif tag == "data":
            self.figures.append((held["value"] or "", held["data-kind"] or "", ""))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["data"]:
            path, kind, text = self.figures[-1]
            self.figures[-1] = (path, kind, text + data)
        elif "td" in self.open and self._numeric:
            self.bare.append(data)
        if {"td", "th"} & set(self.open):
            if self.open[-2:] == ["td", "small"] and not self._numeric:
                self.hints += 1  # explanations of metrics are for the page alone
                return
            next(reversed(self.tables.values()))[-1][-1] += data
