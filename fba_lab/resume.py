"""Parts of a heavy example that outlive a run which was cut off; the next one goes on there."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

FOLDER = Path(".cache") / "heavy"
"""Under the root; one folder for each device and key, removed once the run ended as declared."""


def part(name: str, make: Callable[[], Any]) -> Any:
    """Return what `make` returns, as JSON holds it; it isn't called if an earlier run got that far.

    Only a recording keeps parts, of heavy examples and as long as their key is the same. Run as
    `python FILE`, every part is made.

    Args:
        name: of the part, unique in the example and fit to be a file's name.
        make: does the work; what it returns must be JSON.
    """
    folder = os.environ.get("LAB_KEEP")
    path = Path(folder, f"{name}.json") if folder else None
    if path and path.is_file():
        return json.loads(path.read_text(encoding="utf-8"))
    text = json.dumps(make())
    if path:
        unfinished = path.with_suffix(".part")  # or a kill while writing leaves half a file
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(path)
    return json.loads(text)
