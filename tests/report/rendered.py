"""Markdown and HTML as a reader sees them: their cells, texts and tags; and texts word by word, in `golden`."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

from markdown_it import MarkdownIt

_MARKDOWN = MarkdownIt("commonmark").enable("table").enable("strikethrough")


@dataclass
class Page(HTMLParser):
    """What a page shows: every tag with its attributes, the text, and the cells of its tables."""

    tags: list[str] = field(default_factory=list)
    attributes: list[tuple[str, str]] = field(default_factory=list)
    text: str = ""
    cells: list[str] = field(default_factory=list)
    _in_cell: bool = False

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag in ("td", "th"):
            self._in_cell = True
            self.cells.append("")

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self._in_cell = False

    def handle_data(self, data):
        self.text += data
        if self._in_cell:
            self.cells[-1] += data


def page_of_html(html: str) -> Page:
    page = Page()
    page.feed(html)
    page.close()
    return page


def page_of_markdown(text: str) -> Page:
    return page_of_html(_MARKDOWN.render(text))


def reads(text: str) -> str:
    return " ".join(text.split())


def golden(name: str) -> str:
    """Return the text that is expected word by word."""
    return (Path(__file__).parent / "golden" / name).read_text()
