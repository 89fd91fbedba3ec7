"""The committed result of a run: its shape, its files, and whether it still holds."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fba_lab import depend, notebook, scrub
from fba_lab.device import REFERENCE_DEVICES
from fba_lab.example import ROOT, Example
from fba_lab.files import locked, replace
from fba_lab.shape import record_misfit

SCHEMA = 1
RECORDS = Path("snippets", "records")
LOCAL = Path(".lab", "records")
"""Where mode `run` keeps results that are not committed; the same layout."""

JsonDict = dict[str, Any]


class BadRecord(ValueError):
    """A file of records that cannot be used; the message is one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What one run of one example on one device gave."""

    schema: int = SCHEMA
    """Version of this shape."""
    example: str
    """Id of the example."""
    device: str
    """"cpu" or the slug of a GPU."""
    key: str
    """SHA-256 of all that the result depends on."""
    key_parts: dict[str, str]
    """Hash of each thing depended on."""
    status: str
    """One of shape.STATUSES."""
    text: str
    """What was printed, with ANSI codes and place tokens (see scrub.render_places)."""
    metrics: list[JsonDict]
    """name, unit, n, value (median), low and high (quartiles); better where declared."""
    series: list[JsonDict]
    """name, x, y, x_label, y_label, kind."""
    tables: list[JsonDict]
    """name, columns, rows."""
    artefacts: list[JsonDict]
    """file (beside the record), kind, bytes, sha256."""
    error: JsonDict | None
    """type, message, frames [{definition, offset, line_text}]."""
    seconds: float
    """Wall time."""
    peak_bytes: int | None
    """GPU memory on a GPU, resident memory on a CPU."""
    provenance: JsonDict
    """device_name, device_count, driver, cuda, torch, triton, python, os, date, commit, dirty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Whether a record holds today."""

    status: str
    """fresh, stale or missing."""
    reasons: list[str] = field(default_factory=list)
    """Why it is stale: "train_gpt.polar_express changed"."""
    pending: str | None = None
    """Why it cannot be made right now, when pending.json says so."""
    record: Record | None = None
    """What is there, fresh or not."""
    local: bool = False
    """Whether it is a result of this machine that is not committed."""
    folder: Path | None = None
    """Where the record and its artefacts are."""
    problem: str | None = None
    """One line, when the run ended otherwise than declared, or an artefact is not as recorded."""


def required(example: Example) -> list[str]:
    """Return the devices whose records the repository must have."""
    return [device for device in example.devices if device in REFERENCE_DEVICES]


def path(example: Example, device: str, root: Path = ROOT, base: Path = RECORDS) -> Path:
    """Return the file of a record; `base` is relative to the root, or absolute."""
    return Path(root) / base / device / example.block / f"{example.name}.json"


def to_json(record: Record) -> str:
    """Return the text of a record's file."""
    values = dataclasses.asdict(record)
    return json.dumps(values, sort_keys=True, indent=2, ensure_ascii=False) + "\n"


def from_json(text: str, where: str) -> Record:
    """Return the record in a text; `where` names its file in errors.

    Raises:
        BadRecord: when it is not JSON, of another schema, or lacks or mistypes a field.
    """
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadRecord(f"{where}: not valid JSON ({error}); record it again") from None
    schema = values.get("schema") if isinstance(values, dict) else None
    if schema != SCHEMA:
        raise BadRecord(f"{where}: schema {schema!r}, not {SCHEMA}; record it again")
    if found := record_misfit(values):
        raise BadRecord(f"{where}: {found}; record it again")
    return Record(**values)


def write(
    record: Record, files: dict[str, bytes], example: Example, root: Path, base: Path = RECORDS
) -> Path:
    """Write a record and its artefacts so that an interruption leaves the old one whole.

    New artefacts come first, under names of their content; then the record takes the place of the
    old one in one step; only then old artefacts go.
    """
    target = path(example, record.device, root, base)
    target.parent.mkdir(parents=True, exist_ok=True)
    with locked(target.parent):  # or one recording removes the artefacts of another as old ones
        for name, content in files.items():
            replace(target.with_name(name), content)
        replace(target, to_json(record).encode())
        keep = {target.name, *files}
        for old in target.parent.glob(f"{example.name}.*"):
            if old.name not in keep:
                old.unlink(missing_ok=True)
    return target


def load(example: Example, device: str, root: Path = ROOT, base: Path = RECORDS) -> Record | None:
    """Return a record as it is on disk, or None when there is none."""
    file = path(example, device, root, base)
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        where = _shown(file, root)
        raise BadRecord(f"{where}: cannot be read ({error}); record it again") from None
    found = from_json(text, _shown(file, root))
    for name, here, wanted in (
        ("example", found.example, example.id),
        ("device", found.device, device),
    ):
        if here != wanted:  # copied or moved: it says nothing about this example or device
            where = _shown(file, root)
            raise BadRecord(f"{where}: {name} is {here!r}, not {wanted!r}; record it again")
    return found


def state(
    example: Example,
    device: str,
    root: Path = ROOT,
    *,
    local: bool = False,
    today: depend.Key | None = None,
) -> State:
    """Return whether the record of an example on a device holds, and why not.

    Args:
        example: which.
        device: where.
        root: the repository.
        local: let a result under .lab/ stand in where the committed one is not fresh.
        today: the key that it would be made under now, where that isn't an example's.
    """
    today = today or depend.key(example, root)
    committed = _state(example, device, root, RECORDS, today)
    if not local or committed.status == "fresh":
        return committed
    mine = _state(example, device, root, LOCAL, today)
    return dataclasses.replace(mine, local=True) if mine.status == "fresh" else committed


def pending(root: Path = ROOT) -> list[JsonDict]:
    """Return the entries of pending.json: records that cannot be made right now, and why."""
    file = Path(root) / RECORDS / "pending.json"
    where = _shown(file, root)
    try:
        entries = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    except (ValueError, RecursionError) as error:
        raise BadRecord(f"{where}: not valid JSON ({error}); write a list of entries") from None
    except OSError as error:
        raise BadRecord(f"{where}: cannot be read ({error}); write a list of entries") from None
    if not isinstance(entries, list):
        raise BadRecord(f"{where}: {type(entries).__name__} is no list; write a list of entries")
    fields = ("example", "device", "reason", "date")
    for entry in entries:
        good = isinstance(entry, dict) and all(isinstance(entry.get(one), str) for one in fields)
        if not good or set(entry) != set(fields):
            raise BadRecord(f"{where}: {entry!r} must have the texts {', '.join(fields)}")
    return entries


def end_pending(example: Example, device: str, root: Path = ROOT) -> None:
    """Take an entry out of pending.json, because its record has been made."""
    file = Path(root) / RECORDS / "pending.json"
    if not file.exists():
        return
    with locked(file.parent):  # between reading and writing another recording may end
        entries = pending(root)
        kept = [one for one in entries if (one["example"], one["device"]) != (example.id, device)]
        if len(kept) < len(entries):
            text = json.dumps(kept, sort_keys=True, indent=2, ensure_ascii=False) + "\n"
            replace(file, text.encode())


def problem(record: Record, example: Example) -> str | None:
    """Return one line on how a run ended otherwise than its example declares, or None."""
    if record.status == ("expected-error" if example.raises else "ok"):
        return None
    error = record.error or {"type": "no error", "message": ""}
    ended = f"{error['type']}: {error['message']}".splitlines()[0].rstrip(": ")
    ended = scrub.render_places(ended, example.root)
    if record.status == "error-vanished":
        return f"error-vanished: it ran to its end, LAB declares {example.raises}"
    declared = f"; LAB declares {example.raises}" if example.raises else ""
    return f"{record.status}: {ended}{declared}"


def artefact_problem(record: Record, folder: Path) -> str | None:
    """Return one line on the first artefact that is not the file that was recorded, or None."""
    for one in record.artefacts:
        try:
            content = (folder / one["file"]).read_bytes()
        except OSError as error:
            return f"artefact {one['file']} cannot be read ({error.strerror}); record it again"
        if hashlib.sha256(content).hexdigest() != one["sha256"] or len(content) != one["bytes"]:
            return f"artefact {one['file']} is not the file that was recorded; record it again"
    return None


def _state(example: Example, device: str, root: Path, base: Path, today: depend.Key) -> State:
    record = load(example, device, root, base)
    waiting = {(one["example"], one["device"]): one["reason"] for one in pending(root)}
    reason = waiting.get((example.id, device))
    if record is None:
        return State(status="missing", pending=reason, reasons=["never recorded"])
    fresh = record.key == today.hash
    folder = path(example, device, root, base).parent
    reasons = [] if fresh else depend.changes(record.key_parts, today.parts)
    return State(
        status="fresh" if fresh else "stale",
        reasons=reasons or ([] if fresh else ["key changed"]),
        pending=None if fresh else reason,
        record=record,
        folder=folder,
        problem=problem(record, example)
        or artefact_problem(record, folder)
        or notebook.problem(example, record.artefacts, folder),
    )


def _shown(file: Path, root: Path) -> str:
    return Path(os.path.relpath(file, root)).as_posix()
