"""HTML that is read strictly."""

from __future__ import annotations

from html.parser import HTMLParser

_VOID = {"meta", "br", "link", "img", "input", "hr"}


class Page(HTMLParser):
    """Tags, attributes and words; every tag that is opened must be closed in its order."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.source = source
        self.open, self.tags, self.attributes, self.words = [], [], [], []
        self.feed(source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.handle_startendtag(tag, attributes)
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attributes]

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, text):
        if "style" not in self.open:
            self.words.append(text)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def values(self, name: str) -> list[str]:
        return [value for _, attribute, value in self.attributes if attribute == name]
