"""Runs one example as a program of its own: `python -m fba_lab.child FILE LIMIT_S GRACE_S`.

This process stays behind as a warden and forks the one that runs the file. The warden enforces the
time limit, and on Linux it is told of every descendant that outlives its parent, even one in a
session of its own (PR_SET_CHILD_SUBREAPER), so it can end them all and name them. On other systems
the runner can only end what stayed in the process group.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.machinery
import json
import os
import random
import runpy
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

PR_SET_CHILD_SUBREAPER = 36
MESSAGE_LIMIT = 64 * 1024
_POLL_S = 0.01


def main(argv: Sequence[str]) -> int:
    """Run a file as __main__ under a warden; what happened goes to the file of LAB_RESULT."""
    file, limit_s, grace_s = argv[0], float(argv[1]), float(argv[2])
    _adopt_orphans()
    pid = os.fork()  # safe: no thread has been started yet
    if pid == 0:
        return run(file)
    report(watch(pid, limit_s, grace_s))
    return 0


def run(file: str) -> int:
    """Run a file as `python FILE` would, report how it ended, and return the exit code."""
    random.seed(0)
    sys.meta_path.insert(0, _Seeder())
    sys.argv = [file]
    sys.path[0] = str(Path(file).parent)
    error, code = None, 0
    try:
        if file.endswith(".ipynb"):
            from fba_lab import cells  # which an example has no use for

            cells.run(file)
        else:
            runpy.run_path(file, run_name="__main__")
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        error = _ending(stop) | {"message": f"exit code {stop.code or 0}"}
    except BaseException as problem:
        error, code = _ending(problem), 1
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # the example may have closed it
            stream.flush()
    report({"event": "end", "error": error, "gpu_bytes": _gpu_bytes()})
    return code & 255


def watch(pid: int, limit_s: float, grace_s: float) -> dict[str, Any]:
    """Wait for the example, end whatever it leaves behind, and return how it went."""
    start, runner = time.monotonic(), os.getppid()
    ended, late, told = None, False, []
    signal.signal(signal.SIGTERM, lambda *_: told.append(True))
    while ended is None:
        ended = _reap(pid)
        late = ended is None and time.monotonic() - start > limit_s
        if late or told or os.getppid() != runner:  # or nobody waits for us any more
            break
        time.sleep(0 if ended else _POLL_S)
    seconds = time.monotonic() - start
    left = _wait_for_rest(grace_s) if ended else []
    ended = _end_all(pid) or ended
    status, bytes_used = ended or (0, 0)
    event = {"event": "exit", "timeout": late, "left": left, "seconds": seconds}
    if os.WIFSIGNALED(status):
        return event | {"signal": os.WTERMSIG(status), "peak_bytes": bytes_used}
    return event | {"code": os.waitstatus_to_exitcode(status), "peak_bytes": bytes_used}


def report(event: dict[str, Any]) -> None:
    """Append one event to the file that LAB_RESULT names."""
    with open(os.environ["LAB_RESULT"], "a", encoding="utf-8") as file:
        file.write(json.dumps(event) + "\n")


def _adopt_orphans() -> None:
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _reap(pid: int) -> tuple[int, int] | None:
    """Collect what has ended; return (wait status, peak bytes) once `pid` is among it."""
    with contextlib.suppress(ChildProcessError):
        while True:
            done, status, usage = os.wait4(-1, os.WNOHANG)
            if done == 0:
                return None
            if done == pid:
                scale = 1 if sys.platform == "darwin" else 1024
                return status, usage.ru_maxrss * scale
    return None


def _wait_for_rest(grace_s: float) -> list[str]:
    """Give other processes time to end by themselves; return the names of those that did not.

    Compile workers notice only after a moment that their parent has gone.
    """
    deadline = time.monotonic() + grace_s
    while _descendants() and time.monotonic() < deadline:
        _reap(-1)
        time.sleep(_POLL_S)
    return sorted(_descendants().values())


def _end_all(pid: int) -> tuple[int, int] | None:
    """Kill every descendant until none is left, and collect them."""
    ended = None
    deadline = time.monotonic() + 10  # one in an uninterruptible wait cannot be killed
    while time.monotonic() < deadline:
        for one in {*_descendants(), *([] if ended or sys.platform == "linux" else [pid])}:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(one, signal.SIGKILL)
        ended = _reap(pid) or ended
        if not _descendants():
            break
        time.sleep(_POLL_S)
    return ended or _reap(pid)


def _descendants() -> dict[int, str]:
    """Return the living processes below this one as {pid: name}; none where there is no /proc."""
    parents, names = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            stat = (folder / "stat").read_text(encoding="utf-8", errors="replace")
            name, _, rest = stat.partition("(")[2].rpartition(")")
            state, parent = rest.split()[:2]
            if state != "Z":
                parents[int(folder.name)], names[int(folder.name)] = int(parent), name
    below, size = {os.getpid()}, 0
    while len(below) > size:
        size = len(below)
        below |= {pid for pid, parent in parents.items() if parent in below}
    return {pid: names[pid] for pid in below - {os.getpid()}}


def _ending(error: BaseException) -> dict[str, Any]:
    kind = type(error)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    try:
        text = "\n".join([str(error), *getattr(error, "__notes__", [])])
    except Exception as problem:  # an exception may fail to describe itself
        text = f"(its text cannot be had: {type(problem).__name__})"
    text = text.encode(errors="backslashreplace").decode()  # half a surrogate pair fits no file
    frames = [
        {"file": frame.filename, "line": frame.lineno, "line_text": (frame.line or "").strip()}
        for frame in traceback.extract_tb(error.__traceback__)
    ]
    name = f"{module}{kind.__qualname__}"
    return {"type": name, "message": text[:MESSAGE_LIMIT], "frames": frames[-200:]}


def _gpu_bytes() -> int | None:
    torch = sys.modules.get("torch")
    if os.environ.get("LAB_DEVICE") != "cuda" or torch is None:
        return None
    with contextlib.suppress(Exception):  # a failed kernel leaves CUDA unusable
        used = [torch.cuda.max_memory_allocated(n) for n in range(torch.cuda.device_count())]
        return max(used, default=None)
    return None


class _Seeder(MetaPathFinder):
    """Seeds numpy and torch when the example imports them, so that we need not import either."""

    seeds: dict[str, Callable[[ModuleType], object]]

    def __init__(self) -> None:
        self.seeds = {
            "numpy": lambda module: module.random.seed(0),
            "torch": lambda module: module.manual_seed(0),
        }

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the usual spec of numpy or torch, made to seed at the end of the import."""
        seed = self.seeds.pop(name, None)
        spec = importlib.machinery.PathFinder.find_spec(name, path) if seed else None
        if seed is None or spec is None or spec.loader is None:
            return None
        load = spec.loader.exec_module

        def load_and_seed(module: ModuleType) -> None:
            load(module)
            with contextlib.suppress(AttributeError):  # half of it: a stub, or a broken install
                seed(module)

        spec.loader.exec_module = load_and_seed  # type: ignore[method-assign]
        return spec


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
