"""Charts: recorded series drawn as SVG when a page is built, and kept by their content.

matplotlib is imported only when a chart isn't in the cache yet, so an unchanged site pays nothing.
Colours leave here as CSS variables: one drawing serves both colour schemes.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fba_lab import render
from fba_lab.files import replace

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CHART_VERSION = 1
"""Raise it when the drawing changes: it is part of the name a chart is cached under."""
CACHE = Path(".cache") / "charts"
SIZE = (7.2, 3.1)  # inches; 72 of them make a unit of the drawing
LOG_RANGE = 30
"""From this ratio between the largest and the smallest value on, the axis is logarithmic."""
LINES = 5
# Stand-ins that matplotlib can parse and that occur nowhere else, and what replaces them.
COLOURS = [f"#0a0b{i:02x}" for i in range(1, LINES + 1)]
STANDIN = {colour: f"var(--lab-line-{i})" for i, colour in enumerate(COLOURS, 1)}
INK, GRID, PAPER = "#0a0c01", "#0a0c02", "#0a0c03"
STANDIN |= {INK: "var(--lab-ink)", GRID: "var(--lab-grid)", PAPER: "var(--md-default-bg-color)"}
DASHES = ("-", "--", ":", "-.", (0, (1, 1)))  # a second sign beside the colour
MARKS = ("o", "s", "^", "D", "v")
STYLE = {
    "svg.fonttype": "none",  # text stays text: it can be searched, scaled and read out
    "svg.hashsalt": "fba-lab",  # the same ids each time
    "text.parse_math": False,  # a name with two dollar signs is a name
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": GRID,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.unicode_minus": False,
}

Series = Mapping[str, Any]


def figure(series: Sequence[Series], *, title: str, caption: str, root: Path) -> str:
    """Return a figure: the drawing, its caption, and its numbers as a table underneath.

    Args:
        series: entries of a record's "series", drawn on the same axes.
        title: accessible name of the drawing.
        caption: HTML-free text under it; empty for none.
        root: where the cache lies.
    """
    spec = [CHART_VERSION, [dict(one) for one in series]]
    svg = cached(spec, lambda: _draw(series), title, describe(series), root)
    return framed(svg, numbers(series, f"The numbers of: {title}"), title=title, caption=caption)


def framed(svg: str, table: str, *, title: str, caption: str, class_: str = "lab-chart") -> str:
    """Return the figure of a drawing: it may scroll sideways, its numbers fold out underneath."""
    scroll = render.region("div", svg, title, class_="lab-chart__scroll")
    caption_html = render.tag("figcaption", escape(caption)) if caption else ""
    below = render.folded("The numbers of this chart", table)
    return render.tag("figure", scroll, caption_html, below, class_=class_)


def numbers(series: Sequence[Series], label: str) -> str:
    """Return what was drawn as a table."""
    xs = list(dict.fromkeys(x for one in series for x in one["x"]))
    columns = [series[0]["x_label"], *(f"{one['name']} ({one['y_label']})" for one in series)]
    values = [dict(zip(one["x"], one["y"], strict=True)) for one in series]
    rows = [[x, *(column.get(x) for column in values)] for x in xs]
    return render.table(columns, rows, caption="As recorded", label=label)


def describe(series: Sequence[Series]) -> str:
    """Say in words what a reader who cannot see the drawing needs: each line's range."""
    parts = []
    for one in series:
        ys = [y for y in one["y"] if y is not None]
        if ys:
            low, high = render.number(min(ys)), render.number(max(ys))
            parts.append(f"{one['name']}: {len(ys)} values from {low} to {high} {one['y_label']}")
    return "; ".join(parts) + "."


def cached(
    content: Sequence[Any],
    draw: Callable[[], str],
    title: str,
    description: str,
    root: Path,
) -> str:
    """Return a drawing from the cache, or draw it and put it there in one step.

    Args:
        content: all that the drawing depends on, as JSON, besides its title.
        draw: returns an SVG document; called only when the cache has none.
        title: accessible name of the drawing.
        description: what it shows, in words.
        root: where the cache lies.
    """
    spec = [title, description, version("matplotlib"), *content]
    key = hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()
    path = root / CACHE / f"{key}.svg"
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        pass
    svg = _clean(draw(), f"c{key[:8]}", title, description)
    path.parent.mkdir(parents=True, exist_ok=True)
    replace(path, svg.encode())
    return svg


def document(size: tuple[float, float], paint: Callable[[Axes], object]) -> str:
    """Return the SVG document of one pair of axes, in the style of all charts.

    Args:
        size: width and height in inches; 72 units of the drawing make one.
        paint: draws on the axes.
    """
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with rc_context(STYLE):
        drawing = Figure(figsize=size, layout="constrained")
        FigureCanvasSVG(drawing)
        paint(drawing.add_subplot())
        out = io.StringIO()
        drawing.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    return out.getvalue()


def _draw(series: Sequence[Series]) -> str:
    """Draw with matplotlib and return its SVG document."""

    def paint(axes: Axes) -> None:
        for index, one in enumerate(series):
            _plot(axes, one, index % LINES, len(series))
        _axes(axes, series)

    return document(SIZE, paint)


def _plot(axes: Axes, one: Series, index: int, count: int) -> None:
    """Draw one series as its kind asks."""
    colour = COLOURS[index]
    xs, ys = one["x"], one["y"]
    match one["kind"]:
        case "bar":
            width = 0.8 / count
            places = [i + (index - (count - 1) / 2) * width for i in range(len(xs))]
            axes.bar(places, ys, width * 0.92, color=colour, label=one["name"])
            axes.set_xticks(range(len(xs)), [str(x) for x in xs])
        case "step":
            axes.step(xs, ys, where="post", color=colour, ls=DASHES[index], label=one["name"])
        case _:
            mark = MARKS[index] if len(xs) <= 40 else None
            axes.plot(
                xs, ys, color=colour, ls=DASHES[index], marker=mark, ms=4, lw=1.6, label=one["name"]
            )


def _axes(axes: Axes, series: Sequence[Series]) -> None:
    """Label the axes, choose the scale, and name the lines where there are several."""
    values = [y for one in series for y in one["y"] if y is not None]
    label = " / ".join(dict.fromkeys(one["y_label"] for one in series))
    if values and min(values) > 0 and max(values) / min(values) >= LOG_RANGE:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda y, _: render.number(y))
        label += " (log scale)"
    elif all(value >= 0 for value in values):
        axes.set_ylim(bottom=0)  # a cut axis would make small differences look large
    axes.set_xlabel(series[0]["x_label"])
    axes.set_ylabel(label)
    axes.grid(True, axis="y", color=GRID, lw=0.6)
    axes.set_axisbelow(True)
    if all(isinstance(x, int) for one in series for x in one["x"]) and series[0]["kind"] != "bar":
        axes.xaxis.get_major_locator().set_params(integer=True)
    if len(series) > 1:
        columns = min(len(series), 3)
        axes.legend(frameon=False, ncols=columns, loc="lower left", bbox_to_anchor=(0, 1))


def _clean(svg: str, prefix: str, title: str, description: str) -> str:
    """Make a document into an inline drawing: own ids, scheme colours, a title, no fixed size."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(\sid="|url\(#|href="#)', rf"\g<1>{prefix}-", svg)
    for standin, variable in STANDIN.items():
        svg = svg.replace(standin, variable)
    # The page's own font, and no style sheet that would reach the rest of the page.
    svg = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>\s*", "", svg, count=1, flags=re.DOTALL)
    svg = re.sub(r"""(style="[^"]*?)\s*font-family: [^;"]*;?""", r"\1", svg)
    box = re.search(r'viewBox="[^"]*"', svg)
    names = f'aria-labelledby="{prefix}-title" aria-describedby="{prefix}-desc"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {box[0] if box else ""} role="img" {names}>'
    head += f'<title id="{prefix}-title">{escape(title)}</title>'
    head += f'<desc id="{prefix}-desc">{escape(description)}</desc>'
    return re.sub(r"<svg[^>]*>", lambda _: head, svg, count=1).replace("xlink:href", "href")
