"""Runs one example in a process of its own and says how it went; nothing it does can end the build.

The process gets a fresh interpreter, an empty temporary folder as its working folder and home, an
environment made from a stated list, a time limit, and one pipe for stdout and stderr together.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import site
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fba_lab import device as machine
from fba_lab.example import Example
from fba_lab.measure import ARTEFACT_LIMIT
from fba_lab.process import Output, read_to_end
from fba_lab.shape import event_misfit

PASSED_ON = ("PATH", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "CC", "CXX", "SYSTEMROOT")
"""What an example may see of our environment; the rest of its environment is set here."""

OUT_OF_MEMORY = ("MemoryError", "OutOfMemoryError")
GRACE_S = 3.0
"""How long processes that outlive the example may take to end by themselves."""

LOST = "lost"
"""The event that stands for a file of results that the example has taken away."""
EVENTS_LIMIT = 32 * 1024 * 1024
BACKSTOP_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one run of an example went, as it was: with paths, before anything is cut."""

    status: str
    """ok, expected-error, error, exit, signal, timeout, out-of-memory or error-vanished."""
    output: bytes
    """Both ends of what was printed."""
    left_out: int
    """Bytes that were printed between these ends."""
    events: list[dict[str, Any]] = field(default_factory=list)
    """What measure reported, in order."""
    files: list[bytes] = field(default_factory=list)
    """The content of each artefact event, in order."""
    error: dict[str, Any] | None = None
    """type, message, frames with file and line."""
    seconds: float = 0.0
    """Wall time of the example's process."""
    peak_bytes: int | None = None
    """Of GPU memory on a GPU, of resident memory on a CPU."""
    folders: dict[str, str] = field(default_factory=dict)
    """Paths of this run, and what a record says in their place."""


def run_example(
    example: Example,
    device: str,
    *,
    cache_dir: Path | None = None,
    data_dir: Path | None = None,
    keep_dir: Path | None = None,
    quick: bool = False,
    grace_s: float = GRACE_S,
    stop: threading.Event | None = None,
) -> Outcome:
    """Run an example on a device and return what happened, whatever it was.

    Args:
        example: what to run.
        device: "cpu", or the slug of a GPU of this machine.
        cache_dir: compile caches, for an example that shares them; empty ones when None.
        data_dir: the folder of data sets; <root>/data when None.
        keep_dir: where fba_lab.resume keeps finished parts; nowhere when None.
        quick: repeat for a timing as rarely as can be: the numbers are then no measurement.
        grace_s: how long left processes may take to end.
        stop: ends the run early.

    Raises:
        Stopped: when `stop` was set.
    """
    with tempfile.TemporaryDirectory(prefix="lab-", ignore_cleanup_errors=True) as temp:
        base = Path(temp).resolve()
        shared = cache_dir if example.cache == "shared" else None
        cache, work, result = shared or base / "cache", base / "work", base / "result.jsonl"
        data = data_dir or example.root / "data"
        work.mkdir()
        result.touch()
        env = environment(example, device, work=work, cache=cache, data=data, result=result)
        env |= {"LAB_KEEP": str(keep_dir)} if keep_dir else {}
        env |= {"LAB_QUICK": "1"} if quick else {}
        command = [sys.executable, "-m", "fba_lab.child", str(example.path)]
        command += [str(example.limit_s), str(grace_s)]
        output = Output()
        left = read_to_end(command, env, work, example.limit_s + grace_s + BACKSTOP_S, output, stop)
        events = list(_events(result))
        folders = {str(work): "$TMP", str(cache): "$CACHE", str(data): "data", str(base): "$TMP"}
        return _outcome(example, events, output, left, folders)


def environment(
    example: Example, device: str, *, work: Path, cache: Path, data: Path, result: Path
) -> dict[str, str]:
    """Return the whole environment that an example runs in."""
    package = str(Path(__file__).resolve().parent.parent)
    paths = [str(example.root), package, os.environ.get("PYTHONPATH", "")]
    if site.ENABLE_USER_SITE:  # it would be looked for in the new, empty home
        paths.append(site.getusersitepackages())
    kept = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    return kept | {
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(filter(None, paths))),
        "PYTHONHASHSEED": "0",
        "PYTHONUNBUFFERED": "1",
        "PYTHONIOENCODING": "utf-8",
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "COLUMNS": "100",
        "HOME": str(work),
        "TMPDIR": str(work),
        "USER": "lab",
        "LOGNAME": "lab",
        "TORCHINDUCTOR_CACHE_DIR": str(cache / "inductor"),
        "TRITON_CACHE_DIR": str(cache / "triton"),
        "CUDA_CACHE_PATH": str(cache / "cuda"),
        "CUDA_VISIBLE_DEVICES": machine.visible(device),
        "LAB_DEVICE": machine.kind(device),
        "LAB_RESULT": str(result),
        "LAB_DATA": str(data),
        "LAB_ROOT": str(example.root),
    }


def _events(path: Path) -> Iterator[dict[str, Any]]:
    if not path.is_file():
        yield {"event": LOST}
        return
    with path.open(encoding="utf-8", errors="replace") as file:
        for line in file.read(EVENTS_LIMIT).split("\n"):
            with contextlib.suppress(ValueError, RecursionError):  # cut short by its process's end
                event = json.loads(line)
                if isinstance(event, dict):
                    yield event


def _outcome(
    example: Example,
    events: list[dict[str, Any]],
    output: Output,
    left: bool,
    folders: dict[str, str],
) -> Outcome:
    wrong = next(filter(None, map(_wrong, events)), None)
    events = [event for event in events if not _wrong(event)]
    ends = {event["event"]: event for event in events if event["event"] in ("end", "exit")}
    last = ends.get("exit", {"signal": signal.SIGKILL, "seconds": 0.0, "peak_bytes": None})
    end = ends.get("end")
    reported = [event for event in events if event["event"] not in ("end", "exit")]
    names = sorted(last.get("left", [])) or (["unknown"] if left and "exit" in ends else [])
    status, error = _judge(example, last, end, names)
    files, problem = _read_files(reported)
    problem = wrong or problem or _twice(reported)
    lost = wrong is not None and "exit" not in ends  # then the end that was judged is a guess
    if problem and (status == "ok" or lost):
        status, error = "error", problem
    gpu_bytes = end.get("gpu_bytes") if end else None
    return Outcome(
        status=status,
        output=output.head + output.tail,
        left_out=output.total - len(output.head) - len(output.tail),
        events=reported,
        files=files,
        error=error,
        seconds=last["seconds"],
        peak_bytes=gpu_bytes or last["peak_bytes"],
        folders=folders,
    )


def _wrong(event: dict[str, Any]) -> dict[str, Any] | None:
    """Return the error that an event stands for, written by other means than measure, or None."""
    if event.get("event") == LOST:
        return _error("LostResult", "the file that LAB_RESULT names is no file any more")
    found = event_misfit(event)
    return _error("BadResult", found) if found else None


def _judge(
    example: Example, last: dict[str, Any], end: dict[str, Any] | None, left: list[str]
) -> tuple[str, dict[str, Any] | None]:
    """Return the status of a run and its error, against what the example declares."""
    status, error = _ending(last, end, example.limit_s)
    if error is not None and status != "timeout" and _is_declared(error, example):
        status = "expected-error"
    elif example.raises and status == "ok":
        status = "error-vanished"
    if left and status in ("ok", "expected-error", "error-vanished"):
        many = f"{len(left)} process{'es' if len(left) > 1 else ''} left running"
        return "error", _error("LeftProcess", f"{many}: {', '.join(left)}")
    return status, error


def _ending(
    last: dict[str, Any], end: dict[str, Any] | None, limit_s: float
) -> tuple[str, dict[str, Any] | None]:
    if last.get("timeout"):
        return "timeout", _error("TimeLimit", f"still running after its limit of {limit_s:g} s")
    if last.get("signal"):
        number = last["signal"]
        try:
            name = signal.Signals(number).name
        except ValueError:  # a real-time signal has a number only
            return "signal", _error(f"signal {number}", f"killed by signal {number}")
        return "signal", _error(name, f"killed by signal {number} ({name})")
    if end is None:
        return "exit", _error("SystemExit", f"exit code {last['code']}, without a Python exit")
    error = end["error"]
    if error is None:
        code = last["code"]
        return ("exit", _error("SystemExit", f"exit code {code}")) if code else ("ok", None)
    if error["type"] == "SystemExit":
        return "exit", error
    bare = error["type"].rpartition(".")[2]
    return ("out-of-memory" if bare in OUT_OF_MEMORY else "error"), error


def _is_declared(error: dict[str, Any], example: Example) -> bool:
    if example.raises is None:
        return False
    kind, piece = example.raises
    return kind in (error["type"], error["type"].rpartition(".")[2]) and piece in error["message"]


def _error(kind: str, message: str) -> dict[str, Any]:
    return {"type": kind, "message": message, "frames": []}


def _read_files(events: list[dict[str, Any]]) -> tuple[list[bytes], dict[str, Any] | None]:
    files, problem = [], None
    for event in [event for event in events if event["event"] == "artefact"]:
        path = Path(event["path"])
        try:
            content = path.read_bytes() if path.is_file() else b""
        except (OSError, ValueError):  # no right to read it, or a NUL in its name
            content = b""
        if not content or len(content) > ARTEFACT_LIMIT:
            problem = _error("LostArtefact", f"{path.name} is gone, empty or too large")
        files.append(content[:ARTEFACT_LIMIT])
    return files, problem


def _twice(events: list[dict[str, Any]]) -> dict[str, Any] | None:
    names = [(event["event"], event["name"]) for event in events if "name" in event]
    for kind, name in names:
        if names.count((kind, name)) > 1:
            return _error("DuplicateName", f"two results are called {kind} {name!r}")
    return None
