"""A process run to its end: what it printed, in bounded memory, and nothing of it left behind."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path

KEPT_BYTES = 128 * 1024
"""Of each end of the output while it runs: the text is cut to less, after paths are replaced."""


class Stopped(RuntimeError):
    """The recording was called off while this example ran."""


@dataclass(slots=True)
class Output:
    """Both ends of a stream of bytes, in bounded memory."""

    head: bytes = b""
    tail: bytes = b""
    total: int = 0
    """Bytes that came, kept or not."""

    def add(self, chunk: bytes) -> None:
        """Take what came next."""
        self.total += len(chunk)
        room = KEPT_BYTES - len(self.head)
        self.head += chunk[:room]
        self.tail = (self.tail + chunk[room:])[-KEPT_BYTES:] if room < len(chunk) else self.tail


def read_to_end(
    command: list[str],
    env: dict[str, str],
    work: Path,
    limit_s: float,
    output: Output,
    stop: threading.Event | None,
) -> bool:
    """Run a command to its end, reading what it prints; return whether it left a process."""
    process = subprocess.Popen(
        command,
        cwd=work,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    deadline = time.monotonic() + limit_s
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)  # type: ignore[arg-type]
            while process.poll() is None and time.monotonic() < deadline:
                _read(selector, output, 0.05)
                if stop is not None and stop.is_set():
                    raise Stopped("stopped")
            left = process.poll() is not None and _end_group(process)
            # What is still in the pipe; a process that escaped us may hold it open for ever.
            end = time.monotonic() + 2
            while _read(selector, output, 0) and time.monotonic() < end:
                pass
        return left
    finally:
        if process.poll() is None:
            process.terminate()  # the warden then ends what only it can find
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5)
        _end_group(process)
        process.wait()
        process.stdout.close()  # type: ignore[union-attr]


def _read(selector: selectors.BaseSelector, output: Output, wait_s: float) -> bool:
    for key, _ in selector.select(wait_s):
        chunk = os.read(key.fd, 1 << 16)
        output.add(chunk)
        if not chunk:
            time.sleep(wait_s)  # all writers have gone; only the end of the process is to come
        return bool(chunk)
    return False


def _end_group(process: subprocess.Popen[bytes]) -> bool:
    """Kill what is left of the process group; return whether there was anything."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
        return True
    return False
