"""The tutorial, carried out word for word: its cells, clicks and commands, and what it says is on screen."""

from __future__ import annotations

from tutorial_walk import as_read, quotes, walk


def test_the_tutorial_is_true(notebook):
    screens = walk(notebook)
    assert len(quotes()) == 8
    shown = iter(screens)
    screen = next(shown)
    for quote in quotes():  # in the page's order
        while as_read(quote) not in screen:
            screen = next(shown, None)
            assert screen is not None, f"not on screen: {quote}"
    assert notebook.errors() == []
    assert notebook.page.console_errors == []
