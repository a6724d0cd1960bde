"""The figure that every plot returns: a matplotlib figure that draws itself in a notebook without pyplot.

Imports matplotlib, so `layout` imports it only when something is drawn.
"""

from __future__ import annotations

import html
import io
import re
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from hashlib import sha256
from typing import Any, cast

import matplotlib as mpl
from matplotlib.figure import Figure

from evalkit.plots.theme import LIGHT, STYLE, Palette, palette_of

_LOCK = threading.RLock()
_NO_DATA = dict.fromkeys(("Date", "Creator", "Format", "Type"))
_FONTS = "system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif"
_RC: dict[str, Any] = {
    "axes.grid": False,
    "axes.labelsize": 10,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.unicode_minus": True,
    "figure.dpi": 100,
    "font.family": ["DejaVu Sans"],
    "font.size": 10,
    "hatch.linewidth": 0.8,
    "legend.fontsize": 9.5,
    "legend.frameon": False,
    "path.sketch": None,
    "savefig.bbox": None,
    "savefig.facecolor": "auto",
    "savefig.transparent": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "evalkit",
    "text.parse_math": False,  # a name of a criterion with $ is not a formula
    "text.usetex": False,
    "xtick.labelsize": 9.5,
    "ytick.labelsize": 9.5,
}


@contextmanager
def drawing(palette: Palette) -> Iterator[None]:
    """Draw in evalkit's style; other settings of matplotlib are restored afterwards.

    matplotlib reads its global settings while artists are made and saved, hence the lock.
    """
    parts = dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"))
    inks = dict.fromkeys(parts, palette.ink) | {"figure.facecolor": palette.paper, "axes.facecolor": palette.paper}
    with _LOCK, mpl.rc_context(cast(Any, _RC | inks)), warnings.catch_warnings():
        # the browser has fonts for characters that matplotlib's own font lacks
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


class Picture(Figure):
    """A matplotlib figure with an alternative text, and a notebook view that follows light and dark pages.

    Attributes
    ----------
    alt
        What the plot shows, in words and figures, for readers who do not see it.
    theme
        ``auto``, ``light`` or ``dark``; files saved by `savefig` are light unless it is ``dark``.
    """

    alt: str
    theme: str

    def svg(self, *, inline: bool = False) -> str:
        """The plot as SVG: a file of its own, or (`inline`) an element for an HTML page, free of addresses."""
        written = io.StringIO()
        with drawing(palette_of(self.theme)):
            self.savefig(written, format="svg", metadata=cast(Any, _NO_DATA))
        return _inline(written.getvalue(), self) if inline else _labelled(written.getvalue(), self.alt)

    def _repr_html_(self) -> str:
        return f"{STYLE if self.theme == 'auto' else ''}{self.html()}"

    def html(self) -> str:
        """The plot as a ``<figure>``; pages that show several need `evalkit.plots.theme.STYLE` once."""
        return f"<figure class='ekp'>{self.svg(inline=True)}</figure>"


def _cleaned(svg: str) -> str:
    """Without date, addresses of vocabularies, and ids of groups, which would occur twice on a page."""
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<style[^>]*>\*\{([^}]*)\}</style>\s*", "", svg)
    svg = re.sub(r"<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)
    return svg.replace("'DejaVu Sans'", _FONTS).replace("<svg ", '<svg style="stroke-linejoin:round" ', 1)


def _labelled(svg: str, alt: str) -> str:
    return _cleaned(svg).replace("<svg ", f'<svg role="img" aria-label="{html.escape(alt)}" ', 1)


def _inline(svg: str, picture: Picture) -> str:
    svg = svg[svg.index("<svg ") :]
    svg = re.sub(r'\s+xmlns(:xlink)?="[^"]*"', "", _labelled(svg, picture.alt)).replace("xlink:href", "href")
    mark = sha256(svg.encode()).hexdigest()[:8]
    svg = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{mark}", svg)
    if picture.theme == "auto":
        for part, colour in asdict(LIGHT).items():
            svg = svg.replace(colour, f"var(--ekp-{part},{colour})")
    return svg.strip()
