"""The tests that need a GPU, as one record: how each ended, kept while their code is the same.

`pytest -m gpu --record` writes it, beside the records of examples and in their shape. Here is what
it depends on: the tests marked `gpu` with all that they reach in their file and in snippets/.
"""

from __future__ import annotations

import ast
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fba_lab import depend, device, record, recorder, scrub
from fba_lab.example import ROOT, Example
from fba_lab.syntax import parse

ID = "suite/gpu"
DEVICE = "h200"
"""Where the repository promises a record of it."""
TESTS = "tests"
COLUMNS = ["test", "outcome", "s"]
DIFFERENCE = re.compile(r"^(?P<what>.+): max difference (?P<max>\S+), mean (?P<mean>\S+)$", re.M)
"""How a test prints how far apart two ways to compute a thing are."""


@dataclass(frozen=True, slots=True)
class Ran:
    """One test that has run."""

    name: str
    """File and function, with its parameters in brackets."""
    outcome: str
    """passed, failed or skipped."""
    seconds: float
    printed: str = ""
    message: str = ""
    """First line of the error of one that failed."""


def example(root: Path = ROOT) -> Example:
    """Return the suite as what a record is made of; it has no file of its own to run."""
    return Example(
        id=ID,
        block="suite",
        name="gpu",
        path=Path(root) / TESTS,
        root=Path(root),
        title="Tests that need a GPU",
        doc="",
        devices=(DEVICE,),
        main=False,
        limit_s=0,
        cache="shared",
        data=(),
        raises=None,
        heavy=False,
    )


def tests(root: Path = ROOT) -> list[str]:
    """Return the tests that are marked `gpu`, as "test_file.py::test_function"."""
    return [f"{file.name}::{node.name}" for file in _files(root) for node in _marked(file)]


def _files(root: Path) -> list[Path]:
    return sorted((Path(root) / TESTS).glob("test_*.py"))


def _marked(file: Path) -> Iterator[ast.FunctionDef]:
    for node in parse(file).body:
        decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
        if any(ast.unparse(one).startswith("pytest.mark.gpu") for one in decorators):
            yield node  # type: ignore[misc]


def key(root: Path = ROOT) -> depend.Key:
    """Return today's key: over the tests and all that they reach."""
    root = Path(root).resolve()
    texts: dict[str, str] = {}
    for file in filter(lambda file: any(_marked(file)), _files(root)):
        dotted = f"{TESTS}.{file.stem}"
        module = depend.index(file, dotted, root)
        reach = depend.Reach(root, dotted)
        for node in _marked(file):
            # What a test takes by name is a fixture, which may be one of the same file.
            for name in (node.name, *(one.arg for one in node.args.args)):
                reach.follow(ast.parse(name), module)
        texts |= reach.parts()
    return depend.seal(texts)


def state(where: str = DEVICE, root: Path = ROOT) -> record.State | None:
    """Return whether the record of the suite holds; None in a repository without such tests."""
    if not tests(root):
        return None
    return record.state(example(root), where, root, today=key(root))


def problem(root: Path = ROOT) -> str | None:
    """Return one line when the promised record does not hold and is not pending, or None."""
    found = state(DEVICE, root)
    if found is None or found.pending:
        return None
    if found.status == "missing":
        return f"no record of {ID} on {DEVICE}"
    if found.status == "stale":
        return f"the record of {ID} on {DEVICE} is stale: {', '.join(found.reasons)}"
    return found.problem and f"{ID} on {DEVICE}: {found.problem}"


def unfit(ran: list[Ran], root: Path = ROOT) -> str | None:
    """Say why these tests are no run of the suite that could be recorded, or None."""
    if device.slug() == device.CPU:
        return "no GPU here"
    missing = sorted(set(tests(root)) - {one.name.partition("[")[0] for one in ran})
    return f"{', '.join(missing)} did not run" if missing else None


def write(ran: list[Ran], seconds: float, peak_bytes: int | None, root: Path = ROOT) -> Path:
    """Write the record of a run of the whole suite on this machine and return its file."""
    where = device.slug()
    made = make(ran, where, seconds, peak_bytes, root)
    path = record.write(made, {}, example(root), root)
    record.end_pending(example(root), where, root)
    return path


def make(
    ran: list[Ran], where: str, seconds: float, peak_bytes: int | None, root: Path = ROOT
) -> record.Record:
    """Return the record of a run of the whole suite."""

    def clean(text: str) -> str:
        return scrub.scrub(text, {str(folder): "$TMP" for folder in _temporary()}, root)

    sealed = key(root)
    commit, dirty = recorder.origin(root)
    made = {"commit": commit, "dirty": dirty, "date": recorder.now()}
    rows = [[one.name, one.outcome, round(one.seconds, 3)] for one in ran]
    tables = [{"name": "tests", "columns": COLUMNS, "rows": rows}]
    apart = [
        [one.name, found["what"], float(found["max"]), float(found["mean"])]
        for one in ran
        for found in DIFFERENCE.finditer(one.printed)
    ]
    if apart:
        columns = ["test", "compared", "largest difference", "mean difference"]
        tables.append({"name": "differences", "columns": columns, "rows": apart})
    bad = [one for one in ran if one.outcome != "passed"]
    text = "".join(f"{one.name}: {one.outcome}\n{one.printed}" for one in ran)
    return record.Record(
        example=ID,
        device=where,
        key=sealed.hash,
        key_parts=sealed.parts,
        status="error" if bad else "ok",
        text=scrub.cut(clean(text)),
        metrics=[_count("passed", len(ran) - len(bad)), _count("not_passed", len(bad))],
        series=[],
        tables=scrub.scrubbed(tables, clean),  # type: ignore[arg-type]
        artefacts=[],
        error=_error(bad, clean) if bad else None,
        seconds=round(seconds, 3),
        peak_bytes=peak_bytes,
        provenance=scrub.scrubbed(device.describe(where) | made, clean),  # type: ignore[arg-type]
    )


def _temporary() -> list[Path]:
    """Return the folders that pytest makes its temporary ones in."""
    return list(Path(tempfile.gettempdir()).glob("pytest-of-*"))


def _count(name: str, value: int) -> record.JsonDict:
    return {"name": name, "unit": "tests", "n": 1, "value": value, "low": value, "high": value}


def _error(bad: list[Ran], clean: Callable[[str], str]) -> record.JsonDict:
    first = bad[0]
    message = f"{len(bad)} did not pass, first {first.name}: {first.message or first.outcome}"
    return {"type": "TestFailure", "message": clean(message), "frames": []}


class Plugin:
    """Takes the outcome of each test from pytest and writes the record when all have run."""

    def __init__(self, root: Path = ROOT) -> None:
        """Take no test yet."""
        self.root = root
        self.ran: dict[str, Ran] = {}
        self.narrowed = False
        self.said = ""

    def pytest_deselected(self, items: list) -> None:
        """Note when a test that needs a GPU is left out, as by -k."""
        self.narrowed |= any(item.get_closest_marker("gpu") for item in items)

    def pytest_runtest_logreport(self, report) -> None:
        """Keep how a test ended; a setup or teardown that failed counts as its end."""
        if "gpu" not in report.keywords or not (report.when == "call" or not report.passed):
            return
        name = report.nodeid.removeprefix(f"{TESTS}/")
        lines = str(report.longrepr or "").splitlines() if not report.passed else []
        reason = next((line[1:].strip() for line in lines if line.startswith("E ")), "")
        self.ran[name] = Ran(name, report.outcome, report.duration, report.capstdout, reason)

    def pytest_sessionfinish(self, session) -> None:
        """Write the record, or say why there is none."""
        ran = list(self.ran.values())
        part = self.narrowed or any("::" in one for one in session.config.args)
        why = "only a part was asked for" if part else unfit(ran, self.root)
        if why:
            self.said = f"not recorded: {why}"
            session.exitstatus = 1
            return
        path = write(ran, sum(one.seconds for one in ran), _peak_bytes(), self.root)
        self.said = f"recorded: {os.path.relpath(path, self.root)}"

    def pytest_terminal_summary(self, terminalreporter) -> None:
        """Say what was done."""
        terminalreporter.write_line(self.said)


def _peak_bytes() -> int | None:
    import torch  # the tests have loaded it

    return int(torch.cuda.max_memory_allocated()) if torch.cuda.is_available() else None
