"""The commands: `python -m fba_lab check | record | wording | report`."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fba_lab import device, example, notebook, record, recorder, suite
from fba_lab.example import ROOT, Example

RECORDS_LIMIT = 12 * 1024 * 1024
"""Bytes that all records and their artefacts may have together."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 1 failed, 2 wrong use or input."""
    try:
        try:
            return _command(argv)
        finally:
            print(end="", flush=True)  # here a full disk, or a reader that left, is still ours
    except BrokenPipeError:
        _drop_output()
        return 1
    except OSError as error:
        _drop_output()
        place = f"{error.filename}: " if error.filename else ""
        print(f"fba_lab: {place}{error.strerror or error}", file=sys.stderr)
        return 1


def _command(argv: Sequence[str] | None) -> int:
    options = parser().parse_args(argv)
    # A terminated recording ends like an interrupted one: its child is not left running.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if not (options.root / example.FOLDER).is_dir():
            raise ValueError(f"--root {options.root}: has no {example.FOLDER.as_posix()}")
        return options.run(options)
    except ValueError as error:  # every error of the lab that a user can mend is one
        print(f"fba_lab: {error}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:  # `wording` reads pages, for which the site's are needed
        print(f"fba_lab: {error}; pip install -r requirements-site.txt", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("fba_lab: interrupted; records that were not reached are as before", file=sys.stderr)
        return 130


def _drop_output() -> None:
    """Send what stdout still holds nowhere, or the interpreter fails on it once more at its end."""
    try:
        print(end="", flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    top = argparse.ArgumentParser(prog="python -m fba_lab", description=__doc__)
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    check = commands.add_parser("check", help="which records hold today; runs nothing")
    check.add_argument("--json", action="store_true", help="print JSON")
    check.add_argument("--release", action="store_true", help="fail on pending records too")
    check.set_defaults(run=run_check)
    rec = commands.add_parser("record", help="run examples here and write their records")
    rec.add_argument("--device", metavar="D", help='"cpu" or a GPU such as "h200"; this machine\'s')
    rec.add_argument("--only", metavar="GLOB", help='ids such as "model-compile/*"')
    rec.add_argument("--stale", action="store_true", help="leave out what is fresh")
    rec.add_argument("--heavy", action="store_true", help="also training runs and ablations")
    rec.add_argument("--out", type=Path, metavar="DIR", help="instead of snippets/records")
    rec.add_argument("--jobs", type=_jobs, default=1, metavar="N", help="at a time; default 1")
    rec.set_defaults(run=run_record)
    words = commands.add_parser("wording", help="numbers and comparisons typed into pages")
    words.add_argument("files", nargs="*", type=Path, metavar="FILE", help="all pages without one")
    words.set_defaults(run=run_wording)
    report = commands.add_parser("report", help="every recorded number with where it is from")
    report.add_argument("--json", action="store_true", help="print JSON")
    report.set_defaults(run=run_report)
    for command in (check, rec, words, report):
        command.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)
    return top


def run_check(options: argparse.Namespace) -> int:
    """Print the state of every record; 1 when one is stale, missing or ended wrongly."""
    rows = check(options.root)
    loose = strays(options.root)
    if options.json:
        print(json.dumps({"examples": rows, "strays": loose}, indent=2))
    else:
        _print_check(rows)
        for line in loose:
            print(line)
    return int(bool(loose) or any(_fails(row, options.release) for row in rows))


def check(root: Path = ROOT) -> list[dict[str, Any]]:
    """Return one row per example and device: required ones, and others that have a record."""
    rows = []
    for one in notebook.everything(root).values():
        asked = record.required(one)
        for where in [*asked, *_extra(one, asked, root)]:
            state = record.state(one, where, root)
            rows.append(_row(one, where, state, where in asked))
    rest = suite.example(root)
    for where in [suite.DEVICE, *_extra(rest, [suite.DEVICE], root)]:
        if state := suite.state(where, root):
            rows.append(_row(rest, where, state, where == suite.DEVICE))
    return rows


def _row(one: Example, where: str, state: record.State, required: bool) -> dict[str, Any]:
    row = {"example": one.id, "block": one.block, "device": where, "status": state.status}
    row |= {"reasons": state.reasons, "pending": state.pending, "problem": state.problem}
    return row | {"required": required}


def strays(root: Path = ROOT) -> list[str]:
    """Return one line for each thing among the records that should not be there."""
    base = Path(root) / record.RECORDS
    known = {*notebook.everything(root), *([suite.ID] if suite.tests(root) else [])}
    lines = []
    for file in sorted(base.glob("*/*/*.json")):
        name = f"{file.parent.name}/{file.stem}"
        if name not in known and "." not in file.stem:
            lines.append(f"{file.relative_to(root).as_posix()}: no such example; delete it")
    for entry in record.pending(root):
        if entry["example"] not in known:
            where = (record.RECORDS / "pending.json").as_posix()
            lines.append(f"{where}: no example is called {entry['example']!r}; take it out")
    size = sum(file.stat().st_size for file in base.rglob("*") if file.is_file())
    if size > RECORDS_LIMIT:
        lines.append(f"{record.RECORDS.as_posix()}: {size:,} bytes, {RECORDS_LIMIT:,} are allowed")
    return lines


def run_record(options: argparse.Namespace) -> int:
    """Record, one line per example; 1 when one ended otherwise than it declares."""
    start = time.monotonic()
    results = recorder.record_all(
        options.root,
        device_name=options.device,
        only=options.only,
        stale=options.stale,
        heavy=options.heavy,
        out=options.out,
        jobs=options.jobs,
        report=_print_result,
    )
    bad = sum(result.problem is not None for result in results)
    where = device.slug() if options.device is None else options.device
    ended = f", {bad} ended otherwise than declared" if bad else ""
    print(f"{len(results)} recorded on {where} in {time.monotonic() - start:.1f} s{ended}")
    return int(bad > 0)


def run_report(options: argparse.Namespace) -> int:
    """Print every metric of every record with its provenance."""
    rows = report(options.root)
    if options.json:
        print(json.dumps({"metrics": rows}, indent=2))
    elif rows:
        names = list(rows[0])
        cells = [names, *([_cell(row[name]) for name in names] for row in rows)]
        _print_aligned(cells)
    return 0


def run_wording(options: argparse.Namespace) -> int:
    """Print what pages say without having looked it up; 1 when there is any."""
    from fba_lab import wording  # checks pages, and is nothing that a recording loads

    findings = wording.report(options.files or wording.pages(options.root))
    print("\n".join(findings))
    return int(bool(findings[:-1]))


def report(root: Path = ROOT) -> list[dict[str, Any]]:
    """Return one row per metric and record."""
    rows = []
    for one in [*notebook.everything(root).values(), suite.example(root)]:
        for where in [*record.required(one), *_extra(one, record.required(one), root)]:
            found = record.load(one, where, root)
            for metric in found.metrics if found else []:
                rows.append(_report_row(found, metric))  # type: ignore[arg-type]
    return rows


def _report_row(found: record.Record, metric: dict[str, Any]) -> dict[str, Any]:
    row = {"example": found.example, "device": found.device, "metric": metric["name"]}
    row |= {name: metric[name] for name in ("value", "unit", "low", "high", "n")}
    return row | {name: found.provenance.get(name) for name in _FROM}


_FROM = ("device_name", "torch", "date", "commit")


def _extra(one: Example, asked: list[str], root: Path) -> list[str]:
    """Return the devices that have a record though none is required."""
    found = (Path(root) / record.RECORDS).glob(f"*/{one.block}/{one.name}.json")
    return sorted({file.parent.parent.name for file in found} - set(asked))


def _fails(row: dict[str, Any], release: bool) -> bool:
    waits = row["pending"] is not None and not release
    stale = row["required"] and row["status"] != "fresh" and not waits
    return bool(stale or (row["problem"] and row["status"] == "fresh"))


def _print_check(rows: list[dict[str, Any]]) -> None:
    cells = []
    for row in rows:
        notes = [*row["reasons"], *filter(None, [row["problem"]])]
        notes += [f"pending: {row['pending']}"] if row["pending"] else []
        cells.append([row["example"], row["device"], row["status"], "; ".join(notes)])
    _print_aligned(cells)
    bad = sum(row["status"] != "fresh" for row in rows)
    wrong = sum(bool(row["problem"]) and row["status"] == "fresh" for row in rows)
    print(f"{len(rows)} records, {bad} stale or missing" + (f", {wrong} wrong" if wrong else ""))


def _print_result(result: recorder.Result) -> None:
    line = f"{result.example.id:40}  {result.device:8}  {result.status:15}  {result.seconds:7.1f} s"
    print(line, flush=True)
    if result.problem:
        print(f"  {result.example.file}:1: {result.problem}", flush=True)


def _print_aligned(cells: list[list[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        print("  ".join(map(str.ljust, row, widths)).rstrip())


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return "-" if value is None else str(value)


def _jobs(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of jobs; give 1 or more")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
