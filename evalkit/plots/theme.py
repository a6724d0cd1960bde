"""Colours by their part in a plot, for light and dark pages; no meaning depends on colour alone."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal, get_args

from evalkit.errors import ConfigError

Theme = Literal["auto", "light", "dark"]


@dataclass(frozen=True, slots=True)
class Palette:
    """One colour per part, as ``#rrggbb``; no two parts share one, since a page replaces them by colour.

    Attributes
    ----------
    paper, ink, quiet, line
        Background, text, lesser text, grid and frames.
    good, bad, chance
        Agreement and passes (blue); disagreement and fails (orange); no verdict, and chance (grey).
    """

    paper: str
    ink: str
    quiet: str
    line: str
    good: str
    bad: str
    chance: str


LIGHT = Palette("#fffffe", "#1b1b1c", "#505154", "#cdced1", "#0072b2", "#b84a00", "#7d7e82")
DARK = Palette("#16181c", "#ececee", "#b3b4b8", "#45474d", "#56b4e9", "#ff9955", "#9a9ba0")


def _values(palette: Palette) -> str:
    return "".join(f"--ekp-{part}:{colour};" for part, colour in asdict(palette).items())


_DARK_PAGES = "body[data-jp-theme-light='false'] .ekp,body.vscode-dark .ekp"
_LIGHT_PAGES = "body[data-jp-theme-light='true'] .ekp,body.vscode-light .ekp"
STYLE = (
    f"<style>.ekp{{{_values(LIGHT)}margin:.6em 0;max-width:100%}}.ekp svg{{max-width:100%;height:auto}}"
    f"@media (prefers-color-scheme:dark){{.ekp{{{_values(DARK)}}}}}"
    f"{_DARK_PAGES}{{{_values(DARK)}}}{_LIGHT_PAGES}{{{_values(LIGHT)}}}"
    f"@media print{{.ekp.ekp{{{_values(LIGHT)}break-inside:avoid}}}}</style>"
)
"""The style by which a plot of theme ``auto`` follows the page: system, JupyterLab, VS Code, and print."""


def palette_of(theme: str) -> Palette:
    """The colours of a theme; ``auto`` is drawn in the light ones, which the page replaces.

    Raises
    ------
    ConfigError
        For an unknown theme.
    """
    if theme not in get_args(Theme):
        raise ConfigError(f"unknown theme {theme!r}; allowed: {', '.join(get_args(Theme))}")
    return DARK if theme == "dark" else LIGHT
