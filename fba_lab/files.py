"""Files that appear whole or not at all, also when several processes write them."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other recordings out of a folder; the system lets go when a process dies."""
    import fcntl  # not on Windows, where records are read but not made

    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def replace(target: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    # In the same folder, since os.replace is only atomic within one file system.
    handle, waiting = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(waiting, 0o644)  # mkstemp's files are private
        os.replace(waiting, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(waiting)
        raise
