"""Timelines: what ran when, drawn as a Gantt chart from a recorded table of segments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fba_lab import chart, render
from fba_lab.build import LabProblem

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.patches import PathPatch

TIMELINE_VERSION = 1
"""Raise it when the drawing changes: it is part of the name it is cached under."""
COLUMNS = ["row", "name", "start_ms", "ms"]
OWN = chart.LINES - 1
"""So many names, those with the longest totals, have their own colour; the others share one."""
HATCHES = ("", "////", "\\\\\\\\", "----", "")  # a second sign beside the colour
WIDTH, ROW, ENTRY, REST = 9.0, 0.34, 0.19, 0.75  # inches: all, a row, a line of the legend, axes
BAR = 0.74  # of the height of a row
LATEST = 1e15
"""Milliseconds from which on a number is no time, and the axis could not tell two apart."""
NAME = 64
"""Longer names are cut in the legend; the table underneath has them whole."""


class Segment(NamedTuple):
    """One stretch of time in which one thing ran."""

    row: str
    name: str
    start: float
    length: float


class Group(NamedTuple):
    """What is drawn alike: one name, or all that have no colour of their own."""

    label: str
    names: frozenset[str]
    total: float


def segments(table: Mapping[str, Any], where: str) -> list[Segment]:
    """Return the segments of a recorded table.

    Raises:
        LabProblem: when its columns are others, or a row is no segment; `where` names the table.
    """
    if table["columns"] != COLUMNS:
        raise LabProblem(f"{where} has the columns {table['columns']}; a timeline needs {COLUMNS}")
    for row in table["rows"]:
        texts, numbers = row[:2], row[2:]
        good = all(isinstance(one, str) for one in texts) and all(map(_is_time, numbers))
        if not good:
            raise LabProblem(f"{where}: {row} is no segment: two texts, then two times from 0 on")
    if not table["rows"]:
        raise LabProblem(f"{where} has no segments to draw")
    return [Segment(*row) for row in table["rows"]]


def _is_time(value: object) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and 0 <= value < LATEST


def figure(found: Sequence[Segment], *, title: str, caption: str, root: Path) -> str:
    """Return a figure: the drawing, its caption, and totals by row and name underneath.

    Args:
        found: the segments; rows are drawn from the top in the order they first occur in.
        title: accessible name of the drawing.
        caption: HTML-free text under it; empty for none.
        root: where the cache of drawings lies.
    """
    content = ["timeline", TIMELINE_VERSION, chart.CHART_VERSION, [list(one) for one in found]]
    svg = chart.cached(content, lambda: _draw(found), title, describe(found), root)
    table = totals(found, f"The numbers of: {title}")
    class_ = "lab-chart lab-chart--wide"
    return chart.framed(svg, table, title=title, caption=caption, class_=class_)


def groups(found: Sequence[Segment]) -> list[Group]:
    """Return what is drawn alike, the longest totals first, what has no own colour last."""
    by_name = _sums((one.name, one.length) for one in found)
    names = sorted(by_name, key=lambda name: (-by_name[name], name))
    own = names if len(names) <= OWN + 1 else names[:OWN]
    made = [Group(name, frozenset([name]), by_name[name]) for name in own]
    rest = names[len(own) :]
    if rest:
        total = sum(by_name[name] for name in rest)
        made.append(Group(f"{len(rest)} others", frozenset(rest), total))
    return made


def totals(found: Sequence[Segment], label: str) -> str:
    """Return a table of the total time by row and name, longest first in each row."""
    sums = _sums(((one.row, one.name), one.length) for one in found)
    counts = _sums(((one.row, one.name), 1) for one in found)
    order = {row: at for at, row in enumerate(_rows(found))}
    keys = sorted(sums, key=lambda key: (order[key[0]], -sums[key], key[1]))
    rows = [[*key, counts[key], float(sums[key])] for key in keys]
    columns = ["row", "name", "segments", "total ms"]
    return render.table(columns, rows, caption="Totals of what was recorded", label=label)


def describe(found: Sequence[Segment]) -> str:
    """Say in words what a reader who cannot see the drawing needs: what fills each row."""
    start, end = _span(found)
    words = [f"{len(found)} segments from {render.number(start)} to {render.number(end)} ms"]
    for row in _rows(found):
        sums = _sums((one.name, one.length) for one in found if one.row == row)
        most = max(sums, key=lambda name: sums[name])
        busy = render.number(float(sum(sums.values())))
        words.append(f"{row}: {busy} ms in all, most of it {most}")
    return "; ".join(words) + "."


def _span(found: Sequence[Segment]) -> tuple[float, float]:
    return min(one.start for one in found), max(one.start + one.length for one in found)


def _rows(found: Iterable[Segment]) -> list[str]:
    return list(dict.fromkeys(one.row for one in found))


def _sums(pairs: Iterable[tuple[Any, float]]) -> dict[Any, float]:
    sums: dict[Any, float] = {}
    for key, value in pairs:
        sums[key] = sums.get(key, 0) + value
    return sums


def _draw(found: Sequence[Segment]) -> str:
    """Draw with matplotlib and return its SVG document."""
    rows, made = _rows(found), groups(found)
    height = ROW * len(rows) + ENTRY * len(made) + REST

    def paint(axes: Axes) -> None:
        for index, group in enumerate(made):
            inside = [one for one in found if one.name in group.names]
            axes.add_patch(_patch(inside, rows, index, group))
        start, end = _span(found)
        axes.set_xlim(start, end if end > start else start + 1)
        axes.set_ylim(len(rows) - 0.5, -0.5)  # the first row is on top
        axes.set_yticks(range(len(rows)), rows)
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel("ms")
        axes.grid(True, axis="x", color=chart.GRID, lw=0.6)
        axes.set_axisbelow(True)
        axes.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.2)

    return chart.document((WIDTH, height), paint)


def _patch(inside: Sequence[Segment], rows: list[str], index: int, group: Group) -> PathPatch:
    """Return all segments of a group as one shape, which takes a tenth of what single ones take."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path as Shape

    boxes = []
    for one in inside:
        low, high = rows.index(one.row) - BAR / 2, rows.index(one.row) + BAR / 2
        left, right = one.start, one.start + one.length
        corners = [(left, low), (right, low), (right, high), (left, high), (left, low)]
        boxes.append(Shape(corners, closed=True))
    return PathPatch(
        Shape.make_compound_path(*boxes),
        facecolor=chart.COLOURS[index],
        edgecolor=chart.PAPER,  # of the hatch; there is no outline, which would hide short ones
        hatch=HATCHES[index],
        linewidth=0,
        label=f"{_short(group.label)}: {render.number(group.total)} ms",
    )


def _short(name: str) -> str:
    half = NAME // 2 - 1
    return name if len(name) <= NAME else f"{name[:half]} … {name[-half:]}"
