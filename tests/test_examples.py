"""Every example of the CPU runs as its record says: its status, and the names of its results.

    pytest tests/test_examples.py -m slow

Values are not compared: they belong to a machine and its day. So repeats are cut (LAB_QUICK), all
examples share one compile cache, and where there are cores for it several run at a time. A line
of `--durations=0` gives the time that was waited for each.
"""

import datetime
import math
import os
import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Repository

from fba_lab import depend, device, example, record, run, transcript
from fba_lab.example import ROOT, Example
from fba_lab.record import Record

JOBS = min(4, os.cpu_count() or 1)
"""Examples at a time: much of each is one thread at work, importing and tracing."""
BUDGET_S = float(os.environ.get("LAB_BUDGET_S") or "inf")
"""Seconds from the first example on, after which none is begun: the rest are skipped, and say so.
Which come first then changes with the day, so that each has its turn."""
SLACK = 3
"""Times of its limit that an example may take: it is no test of speed."""


def on_cpu() -> list[Example]:
    """Return the examples that must have a record of a CPU, longest first."""
    files = (ROOT / example.FOLDER).glob("*/[!_]*.py")  # one by one: how they go together is theirs
    found = [one for one in (example.read(path, ROOT) for path in files) if not one.heavy]
    return sorted(
        [one for one in found if device.CPU in one.devices], key=lambda one: -seconds(one)
    )


def seconds(one: Example) -> float:
    kept = record.load(one, "cpu", ROOT)
    return kept.seconds if kept else 0.0


def shape(made: Record) -> dict[str, object]:
    """Return what must be the same each time: no values, and in no order."""
    return {
        "status": made.status,
        "error": made.error and made.error["type"],
        "metrics": sorted((one["name"], one["unit"]) for one in made.metrics),
        "series": sorted((one["name"], one["x_label"], one["y_label"]) for one in made.series),
        "tables": sorted((one["name"], *one["columns"]) for one in made.tables),
        "artefacts": sorted(one["kind"] for one in made.artefacts),
    }


def differences(made: Record, kept: Record) -> list[str]:
    """Return one line for each thing in which a run differs from the record."""
    now, then = shape(made), shape(kept)
    return [
        f"{name}: {now[name]} now, {then[name]} recorded" for name in now if now[name] != then[name]
    ]


def try_out(one: Example, cache: Path, data: Path, stop: threading.Event) -> Record:
    """Run an example as a recording would, but quickly, and return the record it would make."""
    one = replace(one, limit_s=SLACK * one.limit_s)
    outcome = run.run_example(one, "cpu", cache_dir=cache, data_dir=data, quick=True, stop=stop)
    made = {"device_name": "any", "date": "today"}
    return transcript.make(one, "cpu", outcome, depend.key(one, one.root), made)[0]


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder of data sets, prepared where the repository has none."""
    if (ROOT / "data" / "sotu").is_dir():
        return ROOT / "data"
    from snippets import prepare_data

    folder = tmp_path_factory.mktemp("data")
    prepare_data.prepare("sotu", [], folder / "sotu")
    return folder


@pytest.fixture(scope="session")
def runs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, data: Path
) -> Iterator[dict[str, Future[Record | None]]]:
    """Returns the runs of the examples that are to be tested, begun in order of length."""
    cache, stop = tmp_path_factory.mktemp("cache"), threading.Event()
    wanted = [item.callspec.params["one"] for item in request.session.items if is_run(item)]
    if math.isfinite(BUDGET_S):
        random.Random(datetime.date.today().toordinal()).shuffle(wanted)
    end = time.monotonic() + BUDGET_S

    def in_time(one: Example) -> Record | None:
        return try_out(one, cache, data, stop) if time.monotonic() < end else None

    with ThreadPoolExecutor(JOBS) as pool:
        futures = {one.id: pool.submit(in_time, one) for one in wanted}
        yield futures
        stop.set()  # the tests may have been called off
        for future in futures.values():
            future.cancel()


def is_run(item: pytest.Item) -> bool:
    return getattr(item, "originalname", "") == test_example_runs_as_recorded.__name__


@pytest.mark.slow
@pytest.mark.parametrize(
    "one",
    # Its own limit is the example's; the test may wait for the one before it as well.
    [pytest.param(one, id=one.id, marks=pytest.mark.timeout(0)) for one in on_cpu()],
)
def test_example_runs_as_recorded(one: Example, runs: dict[str, Future[Record | None]]) -> None:
    state = record.state(one, "cpu", ROOT)
    made = runs[one.id].result()
    if made is None:
        pytest.skip(f"{BUDGET_S:g} s were spent on other examples; unset LAB_BUDGET_S to run all")
    assert record.problem(made, one) is None, made.text
    if state.pending:
        pytest.skip(f"its record is pending: {state.pending}")
    assert state.record, "never recorded on cpu"
    found = differences(made, state.record)
    assert not found, "\n".join([*found, *state.reasons])


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("'ms')", "'s')", "metrics: [('a', 's')] now, [('a', 'ms')] recorded"),
        ("metric('a'", "metric('b'", "metrics: [('b', 'ms')] now, [('a', 'ms')] recorded"),
        ("['c']", "['d']", "tables: [('t', 'd')] now, [('t', 'c')] recorded"),
        ("x_label='x'", "x_label='z'", "series: [('s', 'z', 'y')] now, [('s', 'x', 'y')] recorded"),
        ("'json')", "'text')", "artefacts: ['text'] now, ['json'] recorded"),
        ("[1.0, 2.0]", "[3.0, 4.0, 5.0]", None),
        ("print('one')", "print('two')", None),
        ("print('one')", "raise OSError", "status: error now, ok recorded"),
    ],
)
def test_names_are_compared_and_values_are_not(
    repo: Repository, tmp_path: Path, old: str, new: str, said: str | None
) -> None:
    body = """
    measure.metric('a', [1.0, 2.0], 'ms')
    measure.series('s', [1], [1], x_label='x', y_label='y')
    measure.table('t', ['c'], [[1]])
    open('a', 'w').write('{}')
    measure.artefact('a', 'json')
    print('one')
    """
    assert old in body

    def made(text: str) -> Record:
        one = repo.example("one", text, main=True)
        return try_out(one, tmp_path, tmp_path, threading.Event())

    before, after = made(body), made(body.replace(old, new))
    assert differences(before, before) == []
    assert differences(after, before)[:1] == ([said] if said else [])
