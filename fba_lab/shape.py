"""What results look like as JSON: one table of shapes, for records and for what an example reports.

A shape is a type (exactly that one: True is no number), a text or None (that very value), a list of
one shape (a list of such), a dict (an object with these fields; `?` marks one that may be left out,
ANY stands for fields of any name), or a tuple (any of these).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

from fba_lab.measure import CHARTS, KINDS

ANY = "*"
STATUSES = (
    "ok",
    "expected-error",
    "error",
    "exit",
    "signal",
    "timeout",
    "out-of-memory",
    "error-vanished",
)
NUMBER = (int, float)
METRIC = {
    "name": str,
    "unit": str,
    "n": int,
    "value": NUMBER,
    "low": NUMBER,
    "high": NUMBER,
    "better?": ("lower", "higher"),
}
SERIES = {
    "name": str,
    "x": [(str, int, float)],
    "y": [(int, float, None)],
    "x_label": str,
    "y_label": str,
    "kind": CHARTS,
}
TABLE = {"name": str, "columns": [str], "rows": [[(str, int, float, bool, None)]]}
ARTEFACT = {"file": str, "kind": KINDS, "bytes": int, "sha256": str}
FRAME = {"definition": str, "offset": int, "line_text": str}
PROVENANCE = {
    "device_name": str,
    "device_count?": int,
    "driver?": (str, None),
    "cuda?": (str, None),
    "torch?": (str, None),
    "triton?": (str, None),
    "python?": str,
    "os?": str,
    "date?": str,
    "commit?": (str, None),
    "dirty?": (bool, None),
}
RECORD = {
    "schema": int,
    "metrics": [METRIC],
    "series": [SERIES],
    "tables": [TABLE],
    "artefacts": [ARTEFACT],
    "example": str,
    "device": str,
    "key": str,
    "key_parts": {ANY: str},
    "status": str,
    "text": str,
    "error": (None, {"type": str, "message": str, "frames": [FRAME]}),
    "seconds": NUMBER,
    "peak_bytes": (int, None),
    "provenance": PROVENANCE,
}

_SEEN = {"file": str, "line": (int, None), "line_text": str}
EVENTS = {
    "metric": METRIC,
    "series": SERIES,
    "table": TABLE,
    "artefact": {"path": str, "kind": KINDS},
    "end": {
        "error": (None, {"type": str, "message": str, "frames": [_SEEN]}),
        "gpu_bytes": (int, None),
    },
    "exit": {
        "timeout": bool,
        "left": [str],
        "seconds": NUMBER,
        "code?": int,
        "signal?": int,
        "peak_bytes": (int, None),
    },
}
"""What each kind of line in the file of LAB_RESULT holds, besides "event"."""


def misfit(value: object, shape: Any, where: str = "") -> str | None:
    """Return how a value differs from a shape, naming the field, or None when it fits."""
    if isinstance(shape, tuple):
        found = [misfit(value, one, where) for one in shape]
        # Of several, the deepest says most.
        return None if None in found else max(filter(None, found), key=len)
    wrong = f"field {where!r} is missing or of a wrong type"
    if isinstance(shape, list):
        if not isinstance(value, list):
            return wrong
        return _first(misfit(one, shape[0], f"{where}[{n}]") for n, one in enumerate(value))
    if isinstance(shape, dict):
        return _object_misfit(value, shape, where) if isinstance(value, dict) else wrong
    return None if _is(value, shape) else wrong


def record_misfit(values: dict[str, Any]) -> str | None:
    """Return what a record cannot say, or None."""
    if found := misfit(values, RECORD) or uneven(values["series"], values["tables"]):
        return found
    if values["status"] not in STATUSES:
        return f"unknown status {values['status']!r}"
    if (values["error"] is None) != (values["status"] in ("ok", "error-vanished")):
        return f"field 'error' does not go with status {values['status']!r}"
    name = re.escape(values["example"].rpartition("/")[2])
    for one in values["artefacts"]:
        # Pages copy these files: a path could lead them anywhere, a bare name cannot.
        bare = re.fullmatch(rf"{name}\.[\w.-]+", one["file"])
        if not bare or re.fullmatch(rf"{name}\.json", one["file"]):
            return f"artefact {one['file']!r} is no file name of this example"
    return None


def event_misfit(event: dict[str, Any]) -> str | None:
    """Return what is wrong with one reported event, or None."""
    kind = event.get("event")
    if not isinstance(kind, str) or kind not in EVENTS:
        return f"unknown event {kind!r}"
    rest = {name: value for name, value in event.items() if name != "event"}
    if found := misfit(rest, EVENTS[kind]):
        return f"{kind}: {found}"
    return uneven([rest] if kind == "series" else [], [rest] if kind == "table" else [])


def uneven(series: list[dict[str, Any]], tables: list[dict[str, Any]]) -> str | None:
    """Return the first series or table whose parts differ in length, or None."""
    for one in series:
        if len(one["x"]) != len(one["y"]):
            return f"series {one['name']!r} has {len(one['x'])} x and {len(one['y'])} y"
    for one in tables:
        if any(len(row) != len(one["columns"]) for row in one["rows"]):
            return f"table {one['name']!r} has a row that is not as long as its columns"
    return None


def _object_misfit(value: dict[str, Any], shape: dict[str, Any], where: str) -> str | None:
    def below(name: str) -> str:
        return f"{where}.{name}" if where else name

    if ANY in shape:
        return _first(misfit(one, shape[ANY], below(name)) for name, one in value.items())
    for name, inner in shape.items():
        bare = name.removesuffix("?")
        if bare in value:
            if found := misfit(value[bare], inner, below(bare)):
                return found
        elif bare == name:
            return f"field {below(bare)!r} is missing or of a wrong type"
    extra = set(value) - {name.removesuffix("?") for name in shape}
    return f"unknown field {below(min(extra))!r}" if extra else None


def _first(found: Iterable[str | None]) -> str | None:
    return next(filter(None, found), None)


def _is(value: object, shape: object) -> bool:
    if not isinstance(shape, type):
        return value is None if shape is None else value == shape
    if type(value) is not shape:
        return False
    try:
        if isinstance(value, str):
            value.encode()  # half a surrogate pair cannot be written to a file
        return not isinstance(value, int | float) or math.isfinite(value)
    except (OverflowError, UnicodeEncodeError):
        return False
