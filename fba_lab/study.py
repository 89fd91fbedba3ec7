"""The `study` command: one block of a trainer in a terminal, with a run of its main example."""

from __future__ import annotations

import argparse
import importlib.util
import io
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from fba_lab import (
    build,
    catalogue,
    depend,
    locate,
    record,
    recorder,
    results,
    run,
    terminal,
    transcript,
)
from fba_lab import device as devices
from fba_lab import view as views
from fba_lab.example import ROOT, Example
from fba_lab.terminal import View

CACHE = Path(".cache") / "compile"
"""Compiled code that one `study` leaves for the next."""
DEVICES = ("auto", "cpu", "cuda")


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, as all others of this command are."""

    def error(self, message: str) -> NoReturn:
        raise views.Misuse(f"{message}; see study --help")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command."""
    made = _Parser(prog="study", description="Study one block of a GPT speedrun trainer.")
    made.add_argument("file", help="the trainer; train_gpt.py alone finds snippets/train_gpt.py")
    what = made.add_mutually_exclusive_group(required=True)
    what.add_argument("--list", action="store_true", help="list the blocks and their lines")
    what.add_argument("--block", metavar="ID", help="show this block and run its main example")
    levels = terminal.LEVELS
    made.add_argument("--level", choices=levels, default="learner", help="how much to say")
    made.add_argument("--device", choices=DEVICES, default="auto", help="where to run")
    made.add_argument("--no-run", action="store_true", help="show the block only")
    made.add_argument("--json", action="store_true", help="print JSON")
    return made


def main(argv: list[str] | None = None) -> int:
    """Run the command; returns 0 when done, 1 when the run failed, 2 for wrong use."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal without our signs gets question marks
            stream.reconfigure(errors="replace")
    try:
        code = _command(argv)
        if sys.stdout:
            sys.stdout.flush()  # not at exit, where an error could no longer be caught
        return code
    except BrokenPipeError:  # the reader of the pipe has seen enough
        code = 1
    except (ValueError, OSError) as error:
        lines = str(error).splitlines() or [type(error).__name__]
        print(f"study: {lines[0]}", file=sys.stderr)
        code = 2
    except KeyboardInterrupt:
        print("study: interrupted", file=sys.stderr)
        code = 130
    _give_up_unwritable()
    return code


def _command(argv: list[str] | None) -> int:
    try:
        options = parser().parse_args(argv)
        path = views.find_file(options.file)
        return (list_blocks if options.list else show_block)(options, path)
    except SystemExit as end:  # after --help, and from rich when the pipe is closed
        return end.code if isinstance(end.code, int) else 0


def _give_up_unwritable() -> None:
    """Drop what standard output did not take: Python would try again at exit, and complain."""
    try:
        if sys.stdout:
            sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def list_blocks(options: argparse.Namespace, path: Path) -> int:
    """Print each block with its status and lines."""
    found = views.located(path)
    entries = [_entry(block, found[block.id]) for block in catalogue.BLOCKS if block.id in found]
    if options.json:
        print(json.dumps({"file": options.file, "blocks": entries}, indent=2))
        return 0
    console = _console()
    width = max((len(block.id) for block in catalogue.BLOCKS), default=0)
    section = ""
    for entry in entries:
        if entry["section"] != section:
            section = entry["section"]
            console.print(Text(section, "bold"))
        lines = ", ".join(f"{span['start']}–{span['end']}" for span in entry["spans"])
        text = Text(f"  {entry['id']:<{width}}  {entry['status']:<8}  {lines:<12}")
        console.print(text.append(f"  {entry['title']}", "dim"), soft_wrap=True)
    return 0


def _entry(block: catalogue.Block, found: locate.Location) -> dict[str, Any]:
    spans = [
        {"file": span.file, "start": span.start, "end": span.end, "primary": span.primary}
        for span in found.spans
    ]
    head = {"id": block.id, "title": block.title, "section": block.section}
    return {**head, "status": found.status, "spans": spans}


def show_block(options: argparse.Namespace, path: Path) -> int:
    """Print a block, run or replay its main example, and print what came out."""
    block = catalogue.get(options.block)
    view = views.of_file(options.file, path, block, ROOT, options.level)
    if not view.spans:
        raise views.Misuse(f"{options.file} has no block {block.id}; study {options.file} --list")
    console = _console()
    if options.json:
        view = view if options.no_run else _with_run(view, options, None)
        print(json.dumps(_as_json(view, views.located(path)[block.id]), indent=2))
        return _code(view, options.no_run)
    if not options.no_run:
        view = replace(view, device=options.device if options.device != "auto" else "")
    terminal.head(console, view)
    if not options.no_run:
        view = _with_run(view, options, console)
        terminal.outcome(console, view)
    terminal.tail(console, view)
    return _code(view, options.no_run)


def _code(view: View, no_run: bool) -> int:
    if no_run or view.example is None:
        return 0
    return 0 if view.result and view.problem is None else 1


def _console() -> Console:
    """Return a console for standard output; rich itself respects NO_COLOR and pipes."""
    console = Console(highlight=False, markup=False, emoji=False)
    if console.width < 1:  # COLUMNS=0, as some runners set it: rich would print nothing at all
        console.width = 80
    return console


# --- The run --------------------------------------------------------------------------------------


def _with_run(view: View, options: argparse.Namespace, console: Console | None) -> View:
    """Return the view with a run of its main example, or with the record and why."""
    if view.example is None:
        return view
    wanted, why = choose(view.example, options.device)
    if why:
        return _replayed(view, options.device, why)
    ours = view.path.resolve() == (ROOT / "snippets" / "train_gpt.py").resolve()
    note = "" if ours else f"The example runs snippets/train_gpt.py, not {view.file}."
    made = _live(view.example, wanted, console)
    problem = record.problem(made, view.example)
    result = results.readable(made, ROOT)
    return replace(view, result=result, device=wanted, problem=problem, note=note)


def choose(example: Example, wanted: str) -> tuple[str, str]:
    """Return where to run, as a device slug, and why not when it can't be run at all."""
    if importlib.util.find_spec("torch") is None:
        return "", "torch is not installed"
    here = devices.slug() if wanted != "cpu" else devices.CPU
    if here != devices.CPU and devices.for_device(example.devices, here):
        return here, ""
    if wanted == "cuda":
        return "", "there is no such GPU here" if here == devices.CPU else "it asks for no such GPU"
    if devices.CPU in example.devices:
        return devices.CPU, ""
    return "", "it asks for a GPU"


def _replayed(view: View, wanted: str, why: str) -> View:
    """Return the view with the best record there is, saying that it is one and why."""
    assert view.example is not None
    site = build.Build(root=ROOT)
    found = [one for one in results.all_of(view.example, site) if one.result is not None]
    found = [one for one in found if wanted == "auto" or (one.device == "cpu") == (wanted == "cpu")]
    if not found:
        return replace(view, note=f"Not run: {why}; and nothing is recorded.")
    best = next((one for one in found if one.device != "cpu"), found[0])
    shown = views.with_result(view, best)
    return replace(shown, note=f"Replayed from the record: {why}. {shown.note}".strip())


def _live(example: Example, device: str, console: Console | None) -> record.Record:
    """Run the example, showing that it is alive; its torch never enters this process."""
    words = f"running {example.name} on {device}{_took(example, device)}"
    if console is None or not console.is_terminal:
        if console is not None:
            console.print(Text(f"{words} …", "dim"))
        return _run(example, device)
    # The time in front: a narrow terminal cuts the end of the line off.
    columns = (SpinnerColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True) as progress:
        progress.add_task(words, total=None)
        return _run(example, device)


def _took(example: Example, device: str) -> str:
    """Return how long the recorded run took, so that a reader knows what to wait for."""
    site = build.Build(root=ROOT)
    for one in results.all_of(example, site):
        if one.result is not None and (one.device == "cpu") == (device == "cpu"):
            return f" ({one.result['seconds']:.0f} s when recorded; Ctrl-C stops it)"
    return ""


def _run(example: Example, device: str) -> record.Record:
    """Run the example and return what a recording would keep, without keeping it."""
    key, (commit, dirty) = depend.key(example, ROOT), recorder.origin(ROOT)
    data = Path(os.environ.get("LAB_DATA") or ROOT / "data").absolute()
    outcome = run.run_example(example, device, cache_dir=ROOT / CACHE, data_dir=data)
    made_with = devices.describe(device) | {"commit": commit, "dirty": dirty}
    made_with["date"] = recorder.now()
    return transcript.make(example, device, outcome, key, made_with)[0]


def _as_json(view: View, found: locate.Location) -> dict[str, Any]:
    """Return everything that is shown, for programs."""
    code = ["\n".join(view.lines[span.start - 1 : span.end]) for span in view.spans]
    return {
        "file": view.file,
        **_entry(view.block, found),
        "level": view.level,
        "place": view.place,
        "code": code,
        "summary": view.block.summary,
        "example": view.example.id if view.example else None,
        "device": view.device or None,
        "note": view.note,
        "result": view.result,
        "question": view.question,
    }


if __name__ == "__main__":
    sys.exit(main())
