"""HTML of code, text, tables and errors: all of it is escaped here, nothing passes as Markdown."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import pygments
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer
from rich.ansi import AnsiDecoder
from rich.color import ColorSystem
from rich.console import Console
from rich.style import Style

from fba_lab.syntax import source_lines

# What a terminal acts on and a page must not: every control character except tab, line feed,
# carriage return and the escape that starts a colour, which rich reads and leaves out.
TITLE = re.compile(r"\x1b[\]PX^_].*?(?:\x07|\x1b\\)", re.DOTALL)  # orders with a text of their own
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]")
ANSI_STYLES = ("bold", "dim", "italic", "underline")
ANSI_COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")


def tag(name: str, *content: str, **attributes: str | bool | int | None) -> str:
    """Wrap HTML in an element; attribute values are escaped, `class_` and `data_x` are renamed."""
    parts = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        key = key.rstrip("_").replace("_", "-")
        parts.append(key if value is True else f'{key}="{escape(str(value))}"')
    return f"<{' '.join(parts)}>{''.join(content)}</{name}>"


def slug(text: str) -> str:
    """Turn any name into one that an id and a URL fragment can hold."""
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-").lower()


# --- Code ---------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=64)
def highlight(source: str) -> tuple[str, ...]:
    """Return the HTML of each line of Python, in the classes that Material colours."""
    html = pygments.highlight(source, PythonLexer(stripnl=False), HtmlFormatter(nowrap=True))
    return tuple(html.split("\n")[: len(source_lines(source))])


def code(
    lines: Sequence[str],
    *,
    start: int,
    anchor: str,
    label: str,
    marks: Mapping[int, int] | None = None,
) -> str:
    """Set highlighted lines with their true numbers, each of them a link target.

    Args:
        lines: HTML of each line.
        start: number of the first line, 1-based.
        anchor: what the id of a line begins with; line 12 becomes `<anchor>-12`.
        label: what a screen reader calls the region, which may scroll sideways.
        marks: number of a note by line number.
    """
    marks = marks or {}
    width = len(str(start + len(lines)))
    rows = []
    for number, line in enumerate(lines, start):
        name = f"{anchor}-{number}"
        # Numbers are drawn by the style sheet, so that copying the code leaves them behind.
        link = tag(
            "a", class_="linenos", data_linenos=f"{number:>{width}} ", href=f"#{name}",
            tabindex=-1, aria_hidden="true",
        )  # fmt: skip
        mark = _mark(marks[number], f"{name}-note-{marks[number]}") if number in marks else ""
        class_ = "lab-line lab-line--noted" if mark else "lab-line"
        rows.append(tag("span", link, line, mark, "\n", id=name, class_=class_))
    body = tag("code", *rows)
    return tag("div", region("pre", body, label), class_="highlight lab-code")


def _mark(number: int, target: str) -> str:
    label = f"Note {number}"
    return tag("a", str(number), class_="lab-mark", href=f"#{target}", aria_label=label)


def notes(texts: Mapping[str, str], marks: Mapping[int, int], anchor: str) -> str:
    """Set the notes that `marks` of `code` lead to: explanation by the piece of code it is on."""
    items = []
    for (line, mark), (text, note) in zip(marks.items(), texts.items(), strict=True):
        back = tag("a", f"line {line}", href=f"#{anchor}-{line}")
        body = f"{tag('code', escape(text))} ({back}): {escape(note)}"
        items.append(tag("li", body, id=f"{anchor}-{line}-note-{mark}"))
    return tag("ol", *items, class_="lab-notes") if items else ""


def region(name: str, content: str, label: str, **attributes: str | bool | int | None) -> str:
    """Make an element that may scroll sideways reachable by keyboard, and name it."""
    return tag(name, content, tabindex=0, role="group", aria_label=label, **attributes)


# --- Text of a run ------------------------------------------------------------------------------


def _style_classes(style: Style) -> list[str]:
    """Name a style by classes, so that each colour scheme can give its own readable colours."""
    classes = [f"t-{name}" for name in ANSI_STYLES if getattr(style, name)]
    if style.color is not None and not style.color.is_default:
        number = style.color.downgrade(ColorSystem.STANDARD).number or 0
        classes.append(f"t-{ANSI_COLOURS[number % 8]}")
    return classes


def ansi(text: str) -> str:
    """Turn terminal text into HTML: colours become classes, everything else is only text."""
    console = Console(width=10_000)
    lines = []
    for line in AnsiDecoder().decode(CONTROL.sub("", TITLE.sub("", text))):
        parts = []
        for segment in line.render(console):
            content = escape(segment.text.replace("\x1b", ""), quote=False)
            classes = _style_classes(segment.style) if segment.style else []
            parts.append(tag("span", content, class_=" ".join(classes)) if classes else content)
        lines.append("".join(parts))
    return "\n".join(lines)


def output(text: str, label: str) -> str:
    """Set what a run printed."""
    if not text.strip():
        return ""
    return tag("div", region("pre", tag("code", ansi(text.rstrip("\n"))), label), class_="lab-text")


# --- Numbers and tables ---------------------------------------------------------------------------


def number(value: Any, digits: int = 4) -> str:
    """Format a number for reading: thousands separated, otherwise to so many significant digits."""
    if not _is_number(value):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    digits = min(max(digits, 1), 17)  # a float has no more
    if abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


METRIC_COLUMNS = ("metric", "median", "unit", "quartiles", "n")
LONG_CELL = 48
"""Characters; a column with a longer text wraps, or it would push the numbers out of sight."""


def table(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], *, caption: str, label: str
) -> str:
    """Set a table; cells that are numbers are aligned on the right, with their column's head.

    Args:
        columns: heads.
        rows: cells; None is empty.
        caption: what a reader sees above it.
        label: what a screen reader calls the region, which may scroll sideways.
    """
    rows = list(rows)
    right = {
        at
        for at in range(len(columns))
        if any(_is_number(row[at]) for row in rows if at < len(row))
    }
    long = {at for row in rows for at, cell in enumerate(row) if len(str(cell)) > LONG_CELL} - right
    class_ = [
        "num" if at in right else "long" if at in long else None for at in range(len(columns))
    ]
    names = zip(columns, class_, strict=True)
    head = tag("tr", *(_head(str(name), c) for name, c in names))
    body = []
    for row in rows:
        texts = [escape("" if cell is None else number(cell)) for cell in row]
        cells = (tag("td", text, class_=c) for text, c in zip(texts, class_, strict=False))
        body.append(tag("tr", *cells))
    parts = tag("caption", escape(caption)), tag("thead", head), tag("tbody", *body)
    inner = tag("table", *parts, class_="lab-grid")  # without a class, Material wraps it once more
    return region("div", inner, label, class_="lab-table")


def folded(title: str, content: str) -> str:
    """Set numbers that a reader opens who wants them."""
    return tag("details", tag("summary", escape(title)), content, class_="lab-numbers")


def _head(name: str, class_: str | None) -> str:
    """Set a column's head; without a name it is no head, which a screen reader would announce."""
    if not name:
        return tag("td", "")
    return tag("th", escape(name), scope="col", class_=class_)


def _is_number(cell: Any) -> bool:
    return isinstance(cell, int | float) and not isinstance(cell, bool)


def metrics(entries: Sequence[Mapping[str, Any]], label: str) -> str:
    """Set the metrics of a record: the median, and the quartiles and count behind it."""
    if not entries:
        return ""
    rows = [[one["name"], one["value"], one["unit"], spread(one), one["n"]] for one in entries]
    return table(METRIC_COLUMNS, rows, caption="Metrics", label=label)


def spread(entry: Mapping[str, Any], digits: int = 4) -> str:
    """Set the quartiles of a metric; empty for a single value."""
    if entry["n"] <= 1:
        return ""
    return f"{number(entry['low'], digits)} – {number(entry['high'], digits)}"


# --- Errors and problems --------------------------------------------------------------------------


def error(kind: str, message: str, frames: Sequence[tuple[str, str, str]], label: str) -> str:
    """Set the error a run ended with.

    Args:
        kind: its type.
        message: its message, shown as it is.
        frames: (place as text, place as URL or "", code of the line) from the outermost in.
        label: what a screen reader calls the region.
    """
    rows = []
    for place, url, line in frames:
        where = tag("a", escape(place), href=url) if url else escape(place)
        rows.append(f"{where}\n    {escape(line.strip(), quote=False)}\n")
    last = tag("strong", escape(kind)) + ": " + ansi(message)
    pre = region("pre", tag("code", *rows, last), label)
    return tag("div", pre, class_="lab-error")


def problem(what: str, todo: str, place: str) -> str:
    """Set a problem of the page itself, for its writer."""
    parts = [tag("strong", "This page has a problem: "), escape(what)]
    if todo:
        parts.append(tag("div", escape(todo), class_="lab-problem__todo"))
    parts.append(tag("div", escape(place), class_="lab-problem__place"))
    return tag("div", *parts, class_="lab-problem", role="note")


def size(count: int) -> str:
    """Format a number of bytes."""
    for unit in ("bytes", "KB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:,.0f} {unit}" if unit == "bytes" else f"{count:.3g} {unit}"
        count /= 1000
    raise AssertionError
