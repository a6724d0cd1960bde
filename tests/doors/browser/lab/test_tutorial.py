"""The tutorial, carried out word for word: its cells, clicks and commands, and what it says is on screen."""

from __future__ import annotations

from tutorial_walk import as_read, quotes, walk


def test_the_tutorial_is_true(notebook):
    screens = walk(notebook)
    assert len(quotes()) == 8
    at = 0
    for quote in quotes():  # in the page's order
        following = [n for n, screen in enumerate(screens) if n >= at and as_read(quote) in screen]
        assert following, f"not on screen: {quote}"
        at = following[0]
    assert notebook.errors() == []
    assert notebook.page.console_errors == []
