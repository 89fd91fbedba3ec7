"""Parts of a heavy example that outlive a run which was cut off; the next one goes on there."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fba_lab.files import replace

FOLDER = Path(".cache") / "heavy"
"""Under the root; one folder for each device and key, removed once the run ended as declared."""


def part(name: str, make: Callable[[], Any]) -> Any:
    """Return what `make` returns, as JSON holds it; it isn't called if an earlier run got that far.

    Only a recording keeps parts, of heavy examples and as long as their key is the same. Run as
    `python FILE`, every part is made. One that cannot be read is made again, and one that cannot
    be kept is used all the same: a full disk must not cost the work of hours.

    Args:
        name: of the part, unique in the example and fit to be a file's name.
        make: does the work; what it returns must be JSON.

    Raises:
        ValueError: when the name is none for a file.
    """
    if name != Path(name).name:
        raise ValueError(f"part {name!r} is no name for a file; leave slashes out")
    folder = os.environ.get("LAB_KEEP")
    path = Path(folder, f"{name}.json") if folder else None
    if path:
        with contextlib.suppress(OSError, ValueError, RecursionError):
            return json.loads(path.read_text(encoding="utf-8"))
    text = json.dumps(make())
    if path:
        with contextlib.suppress(OSError):
            replace(path, text.encode())  # at once, or a kill while writing leaves half a file
    return json.loads(text)
