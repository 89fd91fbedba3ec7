"""What `study` shows of a block, drawn with rich: in a terminal, and as the same text on a page."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.syntax import Syntax
from rich.text import Text

from fba_lab import render
from fba_lab.catalogue import Block
from fba_lab.example import Example
from fba_lab.locate import Span

LEVELS = ("learner", "engineer")
PANEL_LINES = 16
"""Lines of code in the panel: the page shows the whole of it right above."""
PANEL_WIDTH = 84
"""Columns of the panel on a page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A block of one file, and the run of its main example."""

    file: str
    """The file as the reader named it."""
    path: Path
    block: Block
    spans: tuple[Span, ...]
    lines: tuple[str, ...]
    """All lines of the file."""
    level: str = "learner"
    place: tuple[int, int] | None = None
    """Position n of N among the blocks with a page."""
    example: Example | None = None
    result: Mapping[str, Any] | None = None
    """The record of a run, live or replayed, as JSON."""
    device: str = ""
    """Device of the result, as a slug."""
    problem: str | None = None
    """One line, when the run ended otherwise than its example declares."""
    note: str = ""
    """Why the result is not a run of this moment; empty when it is."""
    question: str = ""


def panel(view: View) -> str:
    """Return the terminal text, with colours, that a page sets as its panel."""
    console = Console(
        file=io.StringIO(),
        width=PANEL_WIDTH,
        color_system="standard",  # the page has a colour of its own for each of these
        force_terminal=True,
        force_jupyter=False,
        no_color=False,  # whatever the builder's environment says
        legacy_windows=False,
    )
    console.print(command(view), soft_wrap=True)
    head(console, view, most=PANEL_LINES)
    outcome(console, view)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def command(view: View) -> Text:
    """Return the prompt and what to type for this view."""
    return Text.assemble(("$ ", "dim"), (f"study {view.file} --block {view.block.id}", "bold"))


def head(console: Console, view: View, most: int | None = None) -> None:
    """Print where we are, the block's lines, its code (at most so many lines) and its summary."""
    title = Text.assemble((view.file, "dim"), " ▸ ", (view.block.title, "bold cyan"))
    title.append(f"  {view.level}", "dim")
    if view.device:
        title.append(f" · {device_words(view.device)}", "dim")
    if view.place:
        title.append(f" · {view.place[0]}/{view.place[1]}", "dim")
    console.print(title, soft_wrap=True)
    for span in view.spans:
        comment = f"// block: {view.block.title} · {lines_words(span)}"
        console.print(Text(comment, "green"), soft_wrap=True)
        lines = view.lines[span.start - 1 : span.end]
        code(console, lines[:most], span.start)
        if most is not None and len(lines) > most:
            console.print(Text(f"… {len(lines) - most} more lines", "dim"))
    console.print(Text(view.block.summary))


def code(console: Console, lines: tuple[str, ...], start: int) -> None:
    """Print code with its true line numbers and no padding."""
    syntax = Syntax("", "python", theme="ansi_dark", background_color="default")
    width = len(str(start + len(lines)))
    highlighted = syntax.highlight("\n".join(lines)).split("\n", allow_blank=True)
    for number, line in zip(range(start, start + len(lines)), highlighted, strict=False):
        console.print(Text.assemble((f"{number:>{width}} ", "dim"), line), soft_wrap=True)


def lines_words(span: Span) -> str:
    """Return "line 12" or "lines 12–14"."""
    return f"line {span.start}" if span.start == span.end else f"lines {span.start}–{span.end}"


def device_words(device: str) -> str:
    """Return a device slug as a reader says it."""
    return device.upper()


def outcome(console: Console, view: View) -> None:
    """Print the run: a tick and its numbers when it ended as declared, else a cross and why."""
    if view.example is None:
        console.print(Text("no example of this block yet", "dim"))
        return
    if view.note:
        console.print(Text(view.note, "yellow"))
    name = view.example.name
    if view.result is None:
        console.print(Text(f"✗ {name}: no result to show", "bold red"))
        return
    result = view.result
    where = result["provenance"].get("device_name") or device_words(view.device)
    if view.problem is None:
        ended = "" if result["status"] == "ok" else ", with the error it declares"
        line = f"✓ {name} ran on {where} in {result['seconds']:.1f} s{ended}"
        console.print(Text(line, "bold green"))
        numbers(console, result, view.level)
    else:
        console.print(Text(f"✗ {name} on {where}: {view.problem}", "bold red"))


def numbers(console: Console, result: Mapping[str, Any], level: str) -> None:
    """Print the metrics, aligned; an engineer also gets quartiles, counts and provenance."""
    metrics = result["metrics"]
    name_width = max((len(one["name"]) for one in metrics), default=0)
    values = [render.number(one["value"]) for one in metrics]
    width = max(map(len, values), default=0)
    for one, value in zip(metrics, values, strict=True):
        line = Text(f"  {one['name']:<{name_width}}  {value:>{width}} {one['unit']}")
        if level == "engineer" and one["n"] > 1:
            low, high = render.number(one["low"]), render.number(one["high"])
            line.append(f"  quartiles {low} – {high}, n = {one['n']}", "dim")
        console.print(line, soft_wrap=True)
    if level == "engineer":
        console.print(Text(f"  {provenance(result)}", "dim"), soft_wrap=True)


def provenance(result: Mapping[str, Any]) -> str:
    """Return what a result was made with, in one line."""
    made = result["provenance"]
    commit = str(made.get("commit") or "")[:9]
    parts = [
        made.get("device_name"),
        made.get("torch") and f"torch {made['torch']}",
        made.get("cuda") and f"CUDA {made['cuda']}",
        made.get("date") and str(made["date"])[:10],
        commit and f"commit {commit}{' (edited)' if made.get('dirty') else ''}",
    ]
    return " · ".join(str(part) for part in parts if part)


def tail(console: Console, view: View) -> None:
    """Print the explanation and the question."""
    if view.example is not None:
        console.print()
        console.print(Text("Explanation", "bold"))
        console.print(Text(view.example.title))
        for paragraph in view.example.doc.split("\n\n") if view.example.doc else ():
            console.print(Text(" ".join(paragraph.split())))  # the width is the terminal's
    if view.question:
        console.print()
        console.print(Text("Think about", "bold"))
        console.print(Text(view.question))
