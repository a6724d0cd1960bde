"""The layout of all plots: title, coverage, panels, legend, notes, and the reason if nothing can be shown."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from evalkit.core.formatting import cut_apart
from evalkit.errors import InputError, MissingExtraError, advise_extra, listed
from evalkit.plots.theme import Palette, palette_of
from evalkit.tables.grouping import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes

    from evalkit.plots.notebook_figure import Picture as Picture
else:  # matplotlib is loaded when something is drawn
    Axes = Picture = Any

MOST_PANELS = 12
_WIDTH, _CHARACTERS, _ROOM = 8.0, 96, 44
_LINE, _EDGE, _LEGEND = 0.19, 0.14, 0.34  # inches

Paint = Callable[[Axes, Palette], None]


@dataclass(frozen=True, slots=True)
class Panel:
    """One set of axes: its title, what draws it, the same in words, its height in inches, and the title's weight."""

    title: str
    paint: Paint
    alt: str
    height: float
    weight: str = "normal"


@dataclass(frozen=True, slots=True)
class Key:
    """One entry of the legend: a part of the palette with a hatch or a marker."""

    text: str
    part: str
    hatch: str = ""
    marker: str = ""
    filled: bool = True


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a matrix: its text, a share 0-1 that shades it, and whether it has a heavy frame."""

    text: str
    share: float
    framed: bool = False
    part: str = "good"
    ink: str = "ink"


Cells = Mapping[tuple[int, int], Cell]


def frame(
    title: str,
    subtitle: str,
    panels: Sequence[Panel],
    *,
    theme: str,
    nothing: str = "the table has no rows",
    gaps: Sequence[str] = (),
    columns: int = 1,
    keys: Sequence[Key] = (),
    notes: Sequence[str] = (),
) -> Picture:
    """The figure.

    Parameters
    ----------
    title, subtitle
        What is shown, and of how many items.
    panels
        What is drawn: at most the first twelve, with a note. Without any, `gaps` or else `nothing` is the reason.
    theme
        See `palette_of`.
    columns
        How many panels are side by side, if there are as many.
    gaps
        What cannot be drawn, with its reason.
    keys, notes
        The legend, and lines below the panels.

    Raises
    ------
    MissingExtraError
        Without matplotlib.
    """
    palette = palette_of(theme)
    try:
        from evalkit.plots.notebook_figure import Picture, drawing
    except ImportError as problem:
        raise MissingExtraError(f"plots need matplotlib: {advise_extra('notebook')}") from problem
    shown = list(panels[:MOST_PANELS])
    columns = max(1, min(columns, len(shown)))
    nothing = f"nothing to show: {'; '.join(gaps) or nothing}"
    notes = [*notes, *(f"left out: {gap}" for gap in gaps)] if panels else []
    notes += [f"the first {len(shown)} of {len(panels)} panels"] if len(panels) > len(shown) else []
    heads = textwrap.wrap(subtitle, _CHARACTERS, break_on_hyphens=False)
    feet = [line for note in notes for line in textwrap.wrap(note, _CHARACTERS)]
    rows = [shown[at : at + columns] for at in range(0, len(shown), columns)]
    heights = [max(panel.height for panel in row) for row in rows]
    top, bottom = 0.42 + _LINE * len(heads) + 0.08, (_LINE * len(feet) + 0.1 if feet else 0.02)
    bottom += _LEGEND if keys and shown else 0
    whole = top + (sum(heights) or 0.5) + bottom
    with drawing(palette):
        picture = Picture(figsize=(_WIDTH, whole), layout="constrained")
        picture.theme = theme
        parts = [panel.alt for panel in shown] or [nothing]
        picture.alt = ". ".join(filter(None, [title, subtitle, *parts, " ".join(feet)]))
        _write(picture, title, heads, feet, palette, whole)
        if not shown:
            text = "\n".join(textwrap.wrap(nothing, _CHARACTERS))
            picture.text(_EDGE / _WIDTH, 1 - (top + 0.1) / whole, text, va="top", fontsize=11, color=palette.quiet)
            return picture
        engine: Any = picture.get_layout_engine()
        engine.set(rect=(0.0, bottom / whole, 1.0, 1 - (top + bottom) / whole), w_pad=0.08, h_pad=0.06, hspace=0.03)
        axes = picture.subplots(len(rows), columns, squeeze=False, gridspec_kw={"height_ratios": heights})
        for panel, panel_axes in zip(shown, axes.flat, strict=False):
            panel_axes.set_title(panel.title, fontweight=panel.weight)
            panel.paint(panel_axes, palette)
        for panel_axes in axes.flat[len(shown) :]:
            panel_axes.set_axis_off()
        if keys:
            _legend(picture, keys, palette, (bottom - _LEGEND) / whole)
    return picture


def _write(picture: Any, title: str, heads: list[str], feet: list[str], palette: Palette, whole: float) -> None:
    left = _EDGE / _WIDTH
    picture.text(left, 1 - 0.12 / whole, short(title, 74), va="top", fontsize=13, fontweight="bold")
    for at, line in enumerate(heads):
        picture.text(left, 1 - (0.42 + _LINE * at) / whole, line, va="top", fontsize=10, color=palette.quiet)
    for at, line in enumerate(reversed(feet)):
        picture.text(left, (0.06 + _LINE * at) / whole, line, va="bottom", fontsize=9.5, color=palette.quiet)


def _legend(picture: Any, keys: Sequence[Key], palette: Palette, at: float) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = []
    for key in keys:
        colour = getattr(palette, key.part)
        if key.marker:
            style: Any = {"marker": key.marker, "markerfacecolor": colour if key.filled else palette.paper}
            handles.append(Line2D([], [], color=colour, linestyle="none", markersize=7, **style))
        else:
            handles.append(Patch(facecolor=colour, edgecolor=palette.paper, hatch=key.hatch))
    texts = [key.text for key in keys]
    legend = picture.legend(handles, texts, loc="lower left", bbox_to_anchor=(0.0, at), ncols=len(keys))
    legend.set_in_layout(False)  # its space is reserved


def grid(axes: Axes, palette: Palette, axis: Any = "both") -> None:
    """Fine lines behind what is drawn."""
    axes.grid(visible=True, axis=axis, color=palette.line, linewidth=0.7)
    axes.set_axisbelow(True)


def short(text: str, most: int = 28, among: Iterable[object] = ()) -> str:
    """A name in one line, cut if it is long: a sentence at its end, a name in the middle; unlike the others `among`."""
    names = [" ".join(str(name).split()) for name in (text, *among)]
    return cut_apart(names, most)[names[0]]


def judge_and_criterion(judge: object, criterion: object, table: pd.DataFrame) -> str:
    """The title of a panel about a judge on a criterion of the table."""
    judges, criteria = (table[name].unique() if name in table else () for name in ("judge", "criterion"))
    return f"{short(str(judge), 26, judges)} · {short(str(criterion), 18, criteria)}"


def name_columns(axes: Axes, places: Sequence[float] | Floats, names: Sequence[str]) -> None:
    """Name the ticks of the x axis, slanted or upright if the names would overlap in half the width of a figure."""
    fits = len(names) * (max(map(len, names), default=0) + 1) <= _ROOM
    slanted: dict[str, Any] = {"rotation": 90 if len(names) > 10 else 30, "ha": "right", "rotation_mode": "anchor"}
    axes.set_xticks(places, names, **({} if fits else slanted))


def gap(name: str, rows: pd.DataFrame, otherwise: str) -> str:
    """What stands for a panel without figures: its name, and the first note of its rows, which says why."""
    return f"{name}: {next((str(note) for note in rows.get('notes', ()) if not pd.isna(note)), otherwise)}"


def check_columns(table: Any, need: Sequence[str], name: str) -> None:
    """Raise unless the table has all columns of the table called `name`."""
    if missing := [column for column in need if column not in getattr(table, "columns", ())]:
        raise InputError(f"expected a table of {name}, but column {listed(missing)} is missing")


def paint_matrix(axes: Axes, palette: Palette, cells: Cells, rows: Sequence[str], columns: Sequence[str]) -> None:
    """Cells by row and column, with the names of rows and columns."""
    from matplotlib.patches import Rectangle

    for (row, column), cell in cells.items():
        place = ((column - 0.47, row - 0.47), 0.94, 0.94)
        shade = 0.05 + 0.4 * max(0.0, cell.share) if cell.share == cell.share else 0.0
        axes.add_patch(Rectangle(*place, color=getattr(palette, cell.part), alpha=shade, linewidth=0))
        edge, width = (palette.ink, 1.8) if cell.framed else (palette.line, 0.8)
        axes.add_patch(Rectangle(*place, fill=False, edgecolor=edge, linewidth=width))
        axes.text(column, row, cell.text, ha="center", va="center", color=getattr(palette, cell.ink))
    axes.set_xlim(-0.5, len(columns) - 0.5)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    name_columns(axes, range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def mark_interval(axes: Axes, at: float, figures: tuple[float, ...], colour: str, marker: str, face: str) -> None:
    """A value with its interval in the row `at`."""
    value, low, high = figures
    axes.plot([low, high], [at, at], color=colour, linewidth=2)
    axes.plot([value], [at], marker=marker, color=colour, markerfacecolor=face, markersize=7)


def rows_panel(title: str, paint: Paint, names: list[str], texts: list[str]) -> Panel:
    """A panel with a row per name, and the text of each row."""

    def paint_rows(axes: Axes, palette: Palette) -> None:
        paint(axes, palette)
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.set_yticks(range(len(names)), names)
        axes.tick_params(axis="y", length=0)
        grid(axes, palette, "x")

    alt = "; ".join(f"{name}: {text}" for name, text in zip(names, texts, strict=True)).replace("\n", ", ")
    return Panel(title, paint_rows, f"{title}: {alt}", 0.95 + 0.42 * len(names), "bold")
