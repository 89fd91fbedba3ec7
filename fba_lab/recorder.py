"""Runs many examples and keeps what they gave: a recording, or the results of one's own machine."""

from __future__ import annotations

import datetime
import fnmatch
import os
import re
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fba_lab import catalogue, depend, device, example, notebook, record, resume, transcript
from fba_lab.example import ROOT, Example
from fba_lab.run import run_example


class NothingToRecord(ValueError):
    """No example fits what was asked for; the message is one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One example of a recording."""

    example: Example
    device: str
    status: str
    seconds: float
    problem: str | None
    """One line, when it ended otherwise than declared."""
    path: Path
    """The record that was written."""


Report = Callable[[Result], object]


def record_all(
    root: Path = ROOT,
    *,
    device_name: str | None = None,
    only: str | None = None,
    stale: bool = False,
    heavy: bool = False,
    out: Path | None = None,
    jobs: int = 1,
    report: Report = lambda result: None,
) -> list[Result]:
    """Run what this machine's device can, write the records, and return how each went.

    Args:
        root: the repository.
        device_name: "cpu" or a GPU's slug; this machine's GPU, or its CPU if it has none.
        only: shell pattern on ids.
        stale: leave out what is fresh.
        heavy: also the heavy ones.
        out: folder that takes the place of snippets/records.
        jobs: how many run at a time; timings suffer above 1.
        report: called as each one ends.

    Raises:
        NothingToRecord: when no example is left by these arguments.
        device.NoDevice: when this machine lacks the device.
    """
    where = device.slug() if device_name is None else device_name
    device.require(where)
    _require_torch(root)
    base = Path(out).absolute() if out else record.RECORDS
    chosen = choose(notebook.everything(root).values(), where, only, heavy)
    if out:
        base.mkdir(parents=True, exist_ok=True)  # what cannot be one is found before a run is lost
    if stale:
        # The committed ones decide, also when the new ones go to another folder.
        states = {one.id: record.state(one, where, root) for one in chosen}
        chosen = [one for one in chosen if states[one.id].status != "fresh"]
    return _record(chosen, where, root, base, jobs, report)


def _require_torch(root: Path) -> None:
    """Refuse before a good record is replaced by one that says only that torch is missing."""
    trainer = Path(root) / "snippets" / "train_gpt.py"
    asks = trainer.is_file() and "\nimport torch\n" in trainer.read_text(encoding="utf-8")
    if asks and find_spec("torch") is None:
        raise NothingToRecord("torch is not installed; run pip install -r requirements.txt")


def run_missing(root: Path = ROOT, *, report: Report = lambda result: None) -> list[Result]:
    """Run what this machine can and what neither a record nor a local result answers.

    Results go to .lab/records, which is not committed. Heavy examples are left out, and notebooks,
    which show the outputs that they hold. A machine with a GPU also runs what asks for the CPU.
    """
    results = []
    for where in dict.fromkeys([device.slug(), device.CPU]):
        examples = example.discover(root).values()
        chosen = [one for one in examples if device.for_device(one.devices, where)]
        chosen = [
            one
            for one in chosen
            if not one.heavy and record.state(one, where, root, local=True).status != "fresh"
        ]
        results += _record(chosen, where, root, record.LOCAL, 1, report)
    return results


def choose(examples: Iterable[Example], where: str, only: str | None, heavy: bool) -> list[Example]:
    """Return the examples that a recording on this device takes.

    Raises:
        NothingToRecord: when there is none.
    """
    able = [one for one in examples if device.for_device(one.devices, where)]
    named = [one for one in able if only is None or fnmatch.fnmatchcase(one.id, only)]
    chosen = [one for one in named if heavy or not one.heavy]
    if chosen:
        return chosen
    if named:
        raise NothingToRecord(f"only heavy examples fit ({named[0].id}); add --heavy")
    if able and only:
        hint = catalogue.nearest(only, [one.id for one in able])
        raise NothingToRecord(f"no example for {where!r} matches {only!r}{hint}")
    raise NothingToRecord(f"no example is for {where!r}; add it to devices in a LAB")


def origin(root: Path = ROOT) -> tuple[str | None, bool | None]:
    """Return the commit and whether files outside the records differ from it.

    From git; where there is none, or a copy of the tree without its history, from LAB_COMMIT and
    LAB_DIRTY (0 or 1).

    Raises:
        ValueError: when LAB_COMMIT or LAB_DIRTY cannot be read.
    """
    top = _git(root, "rev-parse", "--show-toplevel")
    if top is not None and Path(top).resolve() == Path(root).resolve():
        commit = _git(root, "rev-parse", "--verify", "-q", "HEAD")
        changed = _git(root, "status", "--porcelain", "--", ".", f":!{record.RECORDS.as_posix()}")
        if commit is not None:
            return commit, None if changed is None else bool(changed)
    commit, dirty = os.environ.get("LAB_COMMIT"), os.environ.get("LAB_DIRTY")
    if commit is not None and not re.fullmatch(r"[0-9a-f]{7,40}", commit):
        raise ValueError(f"LAB_COMMIT is {commit!r}; give 7 to 40 hexadecimal digits")
    if dirty not in (None, "0", "1"):
        raise ValueError(f"LAB_DIRTY is {dirty!r}; give 0 or 1")
    return commit, None if dirty is None else dirty == "1"


def now() -> str:
    """Return the time in UTC as records have it, such as "2026-12-01T03:20:35Z"."""
    moment = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return moment.replace("+00:00", "Z")


def _git(root: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _record(
    chosen: list[Example], where: str, root: Path, base: Path, jobs: int, report: Report
) -> list[Result]:
    if not chosen:
        return []
    if os.environ.get("LAB_QUICK"):
        raise ValueError("LAB_QUICK is set: numbers made under it are no measurement; unset it")
    commit, dirty = origin(root)
    provenance = device.describe(where) | {"commit": commit, "dirty": dirty}
    stop = threading.Event()
    # A new folder, so that the first compilation of a recording is a cold one.
    with tempfile.TemporaryDirectory(prefix="lab-cache-", ignore_cleanup_errors=True) as cache:

        def one(item: Example) -> Result:
            return _one(item, where, root, base, Path(cache), provenance, stop)

        if jobs == 1:
            return [_told(one(item), report) for item in chosen]
        with ThreadPoolExecutor(jobs) as pool:
            futures = [pool.submit(one, item) for item in chosen]
            try:
                return [_told(future.result(), report) for future in as_completed(futures)]
            except BaseException:
                _call_off(futures, stop)
                raise


def _call_off(futures: list[Future[Result]], stop: threading.Event) -> None:
    stop.set()
    for future in futures:
        future.cancel()


def _told(result: Result, report: Report) -> Result:
    report(result)
    return result


def _one(
    item: Example,
    where: str,
    root: Path,
    base: Path,
    cache: Path,
    provenance: dict[str, Any],
    stop: threading.Event,
) -> Result:
    key = depend.key(item, root)  # before the run: an edit during it must show as stale
    data = Path(os.environ.get("LAB_DATA") or Path(root) / "data").absolute()
    start = time.monotonic()
    keep = Path(root) / resume.FOLDER / where / key.hash[:16] if item.heavy else None
    if keep:
        keep.mkdir(parents=True, exist_ok=True)
    outcome = run_example(item, where, cache_dir=cache, data_dir=data, keep_dir=keep, stop=stop)
    made, files = transcript.make(item, where, outcome, key, provenance | {"date": now()})
    path = record.write(made, files, item, root, base)
    problem, edited = record.problem(made, item), None
    if keep and not problem:
        shutil.rmtree(keep, ignore_errors=True)  # another recording may have done so
    if base == record.RECORDS:
        if notebook.is_notebook(item):
            edited = notebook.put_outputs(item, files)
        record.end_pending(item, where, root)
    return Result(
        example=item,
        device=where,
        status=made.status,
        seconds=time.monotonic() - start,
        problem=problem or edited,
        path=path,
    )
