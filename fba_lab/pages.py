"""What a fence on a page calls: each function prints the HTML of one part of the page.

None of them raises for a mistake on a page or a run gone wrong. They note a problem (the hook logs
it with page and line, so that a strict build fails), set it where it arose, and go on.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from fba_lab import build, catalogue, frame, listing, output, reference, render, usage, view
from fba_lab import chart as charts
from fba_lab import example as examples
from fba_lab import results as recorded
from fba_lab import terminal as terminals
from fba_lab import timeline as timelines
from fba_lab.build import LabProblem
from fba_lab.catalogue import nearest
from fba_lab.frame import TRAINER
from fba_lab.results import Shown

CALLS: list[str] = []
"""Names of the functions that a fence may call."""


def enter(line: int, write: Callable[[str], Any]) -> None:
    """Note that the fence at this line is being evaluated; the hook puts this call in front."""
    build.current.line, build.current.write = line, write
    build.current.evaluated.add(line)


def leave(line: int) -> None:
    """Note that the fence at this line was evaluated to its end."""
    build.current.finished.add(line)


def trouble(what: str, todo: str = "") -> str:
    """Note a problem at the fence in work and return the HTML that shows it."""
    problem = build.current.report(what, todo)
    return render.problem(problem.what, problem.todo, f"{problem.path}:{problem.line}")


def call(function: Callable[..., str]) -> Callable[..., None]:
    """Let fences call a function: what it returns is printed, what it raises becomes a problem."""
    signature = inspect.signature(function)
    CALLS.append(function.__name__)

    @functools.wraps(function)
    def printing(*args: Any, **options: Any) -> None:
        unknown = [name for name in options if name not in signature.parameters]
        if unknown:
            hint = nearest(unknown[0], list(signature.parameters))
            what = f"pages.{function.__name__} has no option '{unknown[0]}'{hint}"
            html = trouble(what)
        else:
            html = _guarded(function, args, options)
        build.current.write(html)

    return printing


def _guarded(function: Callable[..., str], args: Any, options: Mapping[str, Any]) -> str:
    try:
        return function(*args, **options)
    except LabProblem as problem:
        return trouble(problem.what, problem.todo)
    except (ValueError, OSError) as error:  # unknown names, examples and files that are unreadable
        return trouble(str(error).replace("\n", " "))
    except Exception as error:  # a wrong argument, or a mistake of ours; the page must not end here
        return trouble(f"pages.{function.__name__}: {type(error).__name__}: {error}")


# --- The frame of a block page --------------------------------------------------------------------


@call
def header(block_id: str, *, needs: Sequence[str] = (), explanation: str = "explanation") -> str:
    """Return breadcrumb, place, hardware, the reader's controls, all blocks and the summary.

    Args:
        block_id: the block of the page.
        needs: ids of blocks to read first.
        explanation: id of the heading that the full explanation stands under.
    """
    return frame.header(catalogue.get(block_id), [catalogue.get(one) for one in needs], explanation)


@call
def blocks() -> str:
    """Return the list of all blocks by section; those with a page are links."""
    return frame.blocks()


# --- Code -----------------------------------------------------------------------------------------


@call
def block(block_id: str, *, notes: Mapping[str, str] | None = None) -> str:
    """Return the code of a block with its true line numbers, and notes on single lines.

    Args:
        block_id: the block.
        notes: explanation by a piece of code that occurs on exactly one line of the block.
    """
    return listing.block(catalogue.get(block_id), notes or {})


@call
def source(file: str) -> str:
    """Return a whole file with a link target on each line, for the page that shows it."""
    path = build.current.root / file
    html = render.highlight(path.read_text(encoding="utf-8"))
    return render.code(html, start=1, anchor=Path(file).stem, label=file)


# --- Results --------------------------------------------------------------------------------------


@call
def show(example_id: str, *, open: bool = False, device: str | None = None) -> str:
    """Return an example: its source, and what came out on each device.

    Args:
        example_id: the example, such as "model-compile/first-steps".
        open: whether the source is unfolded.
        device: show this device only; without it all that have a result.
    """
    example = recorded.example(example_id, build.current)
    title = render.tag("p", escape(example.title), class_="lab-example__title")
    shown = "".join(output.device(one, output.result(one)) for one in _shown(example, device))
    return render.tag("section", title, _source(example, open), shown, class_="lab-example")


def _source(example: examples.Example, open: bool) -> str:
    """Return an example's source, or a link to it where the page has it already."""
    anchor = render.slug(example.id)
    if example.id in build.current.sourced:
        return render.tag("p", render.tag("a", escape(example.file), href=f"#{anchor}"))
    build.current.sourced.add(example.id)
    lines = render.highlight(example.path.read_text(encoding="utf-8"))
    code = render.code(lines, start=1, anchor=anchor, label=example.file)
    summary = render.tag("summary", render.tag("code", escape(example.file)))
    attributes = {"open": open, "id": anchor, "data_search_exclude": True}
    return render.tag("details", summary, code, class_="lab-source", **attributes)


def _shown(example: examples.Example, device: str | None) -> list[Shown]:
    """Return the results to show; none in mode `off`."""
    if build.current.mode == "off":
        return []
    return recorded.chosen(example, device, build.current)


@call
def terminal(block_id: str) -> str:
    """Return the panel of `study train_gpt.py --block ID`, drawn by study from the record."""
    entry, root = catalogue.get(block_id), build.current.root
    example = view.main_example(block_id, root)
    if example is None:
        raise LabProblem(f"block '{block_id}' has no example", "write one with main=True")
    panels = [output.device(one, _panel(entry, one)) for one in _shown(example, None)]
    words = f"fba-lab — {TRAINER.name} · {escape(entry.title)}"
    title = render.tag("p", words, class_="lab-term__title")
    return render.tag("div", title, *panels, class_="lab-term", data_search_exclude=True)


def _panel(entry: catalogue.Block, one: Shown) -> str:
    empty = view.of_file(TRAINER.name, build.current.root / TRAINER, entry, build.current.root)
    text = terminals.panel(view.with_result(empty, one))
    label = f"Terminal: study of {entry.title} on {one.name}"
    return render.region("pre", render.tag("code", render.ansi(text.rstrip())), label)


@call
def chart(
    example_id: str,
    names: str | Sequence[str],
    *,
    device: str | None = None,
    title: str = "",
    caption: str = "",
) -> str:
    """Return one chart for each device, of one or several recorded series on the same axes."""
    wanted = [names] if isinstance(names, str) else list(names)

    def draw(one: Shown) -> str:
        series = [recorded.named(one, "series", name) for name in wanted]
        text = f"{title or one.example.title}, {one.name}"
        return charts.figure(series, title=text, caption=caption, root=build.current.root)

    return _each(example_id, device, draw)


@call
def timeline(
    example_id: str, name: str, *, device: str | None = None, title: str = "", caption: str = ""
) -> str:
    """Return what ran when, for each device: a recorded table of segments as a Gantt chart.

    Args:
        example_id: the example.
        name: its table, with the columns row, name, start_ms, ms.
        device: this device only; without it all that have a result.
        title: accessible name; the example's title without one.
        caption: what stands under the drawing.
    """

    def draw(one: Shown) -> str:
        where = f"table '{name}' of {one.example.id} on {one.device}"
        found = timelines.segments(recorded.named(one, "tables", name), where)
        text = f"{title or one.example.title}, {one.name}"
        return timelines.figure(found, title=text, caption=caption, root=build.current.root)

    return _each(example_id, device, draw)


@call
def table(example_id: str, name: str, *, device: str | None = None) -> str:
    """Return one recorded table, for each device that has a result."""

    def draw(one: Shown) -> str:
        return output.table(recorded.named(one, "tables", name), one.name)

    return _each(example_id, device, draw)


@call
def trace(example_id: str, *, device: str | None = None) -> str:
    """Return a link to each recorded trace, and a button that opens it in the Perfetto UI."""
    return _each(example_id, device, output.traces)


def _each(example_id: str, device: str | None, draw: Callable[[Shown], str]) -> str:
    """Return one part of the result on each device that has one, with its provenance."""
    example = recorded.example(example_id, build.current)
    shown = [one for one in _shown(example, device) if one.result is not None]
    return "".join(output.device(one, draw(one) + output.provenance(one)) for one in shown)


# --- Reference ------------------------------------------------------------------------------------


@call
def results() -> str:
    """Return every recorded number, by block and device, with where it is from."""
    return "" if build.current.mode == "off" else reference.numbers(build.current)


@call
def cli(command: str) -> str:
    """Return the help of a command, such as "study" or "fba_lab check"."""
    text = usage.text(usage.parser(command, build.current.root))
    return render.output(text, f"Help of {command}")
