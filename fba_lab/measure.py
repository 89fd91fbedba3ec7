"""What an example reports: numbers with their spread, series, tables and files.

Under the runner each result goes as a line of JSON to the file that LAB_RESULT names; otherwise it
is printed, so that `python FILE` shows a reader the same results. Only the standard library is
imported here; torch is used where the example has loaded it or asks for a device.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from fba_lab import plain

MEASURE_VERSION = 1
"""Raise by hand when the meaning of a measurement changes: every record becomes stale."""

ARTEFACT_LIMIT = 2 * 1024 * 1024
"""Bytes; what one file may add to the repository."""

KINDS = ("svg", "png", "trace", "code", "text", "json")
CHARTS = ("line", "bar", "step")
TIME_UNITS = ("s", "ms", "us", "µs", "ns", "min", "h")
Number = float | int


def metric(
    name: str, samples: Iterable[Number] | Number, unit: str, *, better: str | None = None
) -> None:
    """Report a number: the median of the samples with its quartiles, or one counted value.

    Args:
        name: unique within the example, such as "compiled_ms".
        samples: one value per repeat, or a single value; 0-d tensors are read as numbers.
        unit: "ms", "tokens/s", "bytes", "graphs"; "" for a bare number.
        better: "lower" or "higher", for charts that say which way is good.

    Raises:
        ValueError: for no sample, one that is not finite, or a timing with a single sample.
    """
    values = [_number(value, f"metric {name!r}") for value in _samples(samples)]
    if not values:
        raise ValueError(f"metric {name!r} has no samples")
    timing = unit in TIME_UNITS or unit.endswith("/s")
    if timing and len(values) == 1 and not _quick():
        raise ValueError(f"metric {name!r}: one sample is not a timing; repeat and pass them all")
    # What lies between two numbers near the largest one may be infinite.
    low, middle, high = (_number(value, f"metric {name!r}") for value in _quartiles(values))
    event = {"name": name, "unit": unit, "n": len(values), "value": middle, "low": low}
    event["high"] = high
    if better is not None:
        event["better"] = _one_of(better, ("lower", "higher"), f"metric {name!r}: better")
    between = f"{plain.number(low)} to {plain.number(high)}"
    spread = f"  ({between}, n={len(values)})" if len(values) > 1 else ""
    _report("metric", event, f"{name}  {plain.number(middle)} {unit}".rstrip() + spread)


def series(
    name: str,
    x: Iterable[Number | str],
    y: Iterable[Number | None],
    *,
    x_label: str,
    y_label: str,
    kind: str = "line",
) -> None:
    """Report points for a chart; y may hold None for a gap, x may hold names of bars.

    Raises:
        ValueError: when the lengths differ, a number is not finite, or the kind is unknown.
    """
    xs = [value if isinstance(value, str) else _number(value, f"series {name!r}") for value in x]
    ys = [None if value is None else _number(value, f"series {name!r}") for value in y]
    if len(xs) != len(ys):
        raise ValueError(f"series {name!r} has {len(xs)} x and {len(ys)} y; give as many")
    event = {"name": name, "x": xs, "y": ys, "x_label": x_label, "y_label": y_label}
    event["kind"] = _one_of(kind, CHARTS, f"series {name!r}: kind")
    rows = [(plain.cell(a), plain.cell(b)) for a, b in zip(xs, ys, strict=True)]
    _report("series", event, plain.table(name, [x_label, y_label], rows))


def table(name: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Report a table whose cells are text, numbers, booleans or None.

    Raises:
        ValueError: when a row is not as long as the columns, or a cell is of another type.
    """
    kept = [[_cell(cell, name) for cell in row] for row in rows]
    for row in kept:
        if len(row) != len(columns):
            raise ValueError(f"table {name!r}: {len(row)} cells for {len(columns)} columns: {row}")
    event = {"name": name, "columns": list(columns), "rows": kept}
    shown = [[plain.cell(cell) for cell in row] for row in kept]
    _report("table", event, plain.table(name, list(columns), shown))


def artefact(path: str | Path, kind: str) -> None:
    """Keep a file that the example has written, as one of KINDS, beside its record.

    Raises:
        ValueError: when the file is missing or too large, or the kind is unknown.
    """
    path = Path(path).absolute()
    _one_of(kind, KINDS, f"artefact {path.name!r}: kind")
    if not path.is_file():
        raise ValueError(f"artefact {path.name!r} is not there; write it before reporting it")
    size = path.stat().st_size
    if size > ARTEFACT_LIMIT:
        limit = f"{ARTEFACT_LIMIT:,} may be kept"
        raise ValueError(f"artefact {path.name!r} has {size:,} bytes; {limit}")
    _report("artefact", {"path": str(path), "kind": kind}, f"{kind}  {path}  ({size:,} bytes)")


def device() -> str:
    """Return "cpu" or "cuda": what LAB_DEVICE says, else a GPU when torch finds one."""
    asked = os.environ.get("LAB_DEVICE")
    if asked:
        return _one_of(asked, ("cpu", "cuda"), "LAB_DEVICE")
    try:
        import torch
    except ImportError:
        return "cpu"
    return "cuda" if torch.cuda.is_available() else "cpu"


def data(name: str) -> Path:
    """Return the folder of a data set, after checking its files against snippets/data.json.

    Raises:
        FileNotFoundError: when it is not there; the message says how to make it.
        ValueError: when a file is not the one that data.json describes.
    """
    root = Path(os.environ.get("LAB_ROOT") or Path(__file__).resolve().parent.parent)
    entries = json.loads((root / "snippets" / "data.json").read_text(encoding="utf-8"))
    if name not in entries:
        raise ValueError(f"no data set {name!r} in snippets/data.json; it has {', '.join(entries)}")
    entry, fix = entries[name], f"run: {entries[name]['prepare']}"
    folder = Path(os.environ.get("LAB_DATA") or root / "data") / name
    for file_name, file in entry["files"].items():
        path = folder / file_name
        if not path.is_file():
            raise FileNotFoundError(f"data {name!r}: {file_name} is missing; {fix}")
        found = hashlib.sha256(path.read_bytes()).hexdigest()
        if found != file["sha256"]:
            raise ValueError(
                f"data {name!r}: {file_name} has sha256 {found[:12]}..., "
                f"data.json says {file['sha256'][:12]}...; {fix}"
            )
    return folder


def rounds(wanted: int) -> int:
    """Return how often to do what is done again for its timing alone; once under LAB_QUICK=1.

    That is set where an example is tried out, by a test; nothing is recorded under it.
    """
    return min(wanted, 1) if _quick() else wanted


def _quick() -> bool:
    return os.environ.get("LAB_QUICK") == "1"


def timed(
    fn: Callable[[], object], *, warmup: int, repeats: int, device: str | None = None
) -> list[float]:
    """Return milliseconds per call, one per repeat, after `warmup` calls that are not timed.

    On CUDA each call lies between two events of the current stream; elsewhere the clock is read
    around it. Under LAB_QUICK=1 there is one repeat.
    """
    count = rounds(repeats)
    for _ in range(warmup):
        fn()
    if _on_cuda(device):
        return _cuda_times(fn, count)
    times = []
    for _ in range(count):
        start = time.perf_counter()
        fn()
        times.append((time.perf_counter() - start) * 1e3)
    return times


def peak_bytes(device: str | None = None) -> int:
    """Return the most memory used so far: on the GPU for "cuda", of this process for "cpu"."""
    if _on_cuda(device):
        import torch

        return int(torch.cuda.max_memory_allocated())
    import resource  # not on Windows, where the rest of this module works

    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used if sys.platform == "darwin" else used * 1024


def _on_cuda(asked: str | None) -> bool:
    return (asked or device()) == "cuda"


def _cuda_times(fn: Callable[[], object], repeats: int) -> list[float]:
    import torch

    events = [
        (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True))
        for _ in range(repeats)
    ]
    torch.cuda.synchronize()
    for start, end in events:
        start.record()
        fn()
        end.record()
    torch.cuda.synchronize()
    return [float(start.elapsed_time(end)) for start, end in events]


def _samples(samples: Iterable[Number] | Number) -> list[Number]:
    if isinstance(samples, int):
        return [samples]
    try:
        return [float(samples)]  # type: ignore[arg-type]  # also a 0-d tensor
    except (TypeError, ValueError, RuntimeError):
        return list(samples)  # type: ignore[arg-type]


def _number(value: object, where: str) -> Number:
    number = float(value)  # type: ignore[arg-type]
    if not math.isfinite(number):
        raise ValueError(f"{where}: {number} is not a finite number")
    return value if isinstance(value, int) and not isinstance(value, bool) else number


def _quartiles(values: list[Number]) -> list[Number]:
    return values * 3 if len(values) == 1 else statistics.quantiles(values, n=4, method="inclusive")


def _one_of(value: str, choices: Sequence[str], where: str) -> str:
    if value not in choices:
        raise ValueError(f"{where} is {value!r}; it must be one of {', '.join(choices)}")
    return value


def _cell(value: object, name: str) -> str | Number | None:
    if value is None or isinstance(value, str | bool):
        return value
    try:
        return _number(value, f"table {name!r}")
    except TypeError:
        raise ValueError(f"table {name!r}: {value!r} is no text, number, boolean or None") from None


def _report(kind: str, event: dict[str, object], shown: str) -> None:
    for key in ("name", "unit", "x_label", "y_label"):
        if not isinstance(event.get(key, ""), str):
            raise ValueError(f"{kind}: {key} is {event[key]!r}; give a text")
    path = os.environ.get("LAB_RESULT")
    if not path:
        print(shown, flush=True)
        return
    line = json.dumps({"event": kind, **event}) + "\n"
    with open(path, "a", encoding="utf-8") as file:  # one write, so that processes can share it
        file.write(line)
