"""The results that pages and `study` show: records made readable, and how far to trust each."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fba_lab import build, constant, record, scrub
from fba_lab import example as examples
from fba_lab import place as places
from fba_lab.build import LabProblem
from fba_lab.catalogue import nearest
from fba_lab.example import Example


@dataclass(frozen=True, slots=True)
class Frame:
    """One line of a traceback, where it stands today."""

    file: str
    line: int | None
    """None when the statement is no longer there."""
    definition: str
    text: str
    """The code that the line held when it was recorded."""

    @property
    def place(self) -> str:
        """Return "file:line, in definition"."""
        name = self.definition.rsplit(".", 1)[-1]
        if self.line is None:
            return f"{self.definition} (no longer there)"
        return f"{self.file}:{self.line}" + ("" if name == "<module>" else f", in {name}")


@dataclass(frozen=True, slots=True)
class Shown:
    """The result of one example on one device."""

    example: Example
    device: str
    result: Mapping[str, Any] | None
    """The record as JSON, its places turned into today's lines; None where there is none."""
    status: str
    """fresh, stale or missing."""
    reasons: tuple[str, ...] = ()
    pending: str | None = None
    problem: str | None = None
    """One line, when the run ended otherwise than declared."""
    local: bool = False
    folder: Path | None = None
    """Where its artefacts are."""
    torch_note: str = ""

    @property
    def name(self) -> str:
        """What the device is called on a page."""
        made = self.result["provenance"] if self.result else {}
        name = str(made.get("device_name") or self.device.upper())
        return f"CPU · {name}" if self.device == "cpu" and made else name

    @property
    def declared(self) -> bool:
        """Whether there is a result and it ended as the example says."""
        return self.result is not None and self.problem is None

    @property
    def verdict(self) -> str:
        """Say in a few words how the run ended and how old it is."""
        if self.result is None:
            return "pending" if self.pending else "not recorded"
        words = {"ok": "✓ ran", "expected-error": "✓ failed as declared"}
        ended = words[self.result["status"]] if self.declared else f"✗ {self.result['status']}"
        return ended + (" · local" if self.local else "") + (" · stale" if self.stale else "")

    @property
    def stale(self) -> bool:
        """Whether the code has changed since."""
        return self.status == "stale"

    @property
    def colour(self) -> str:
        """Which of the three colours the verdict has."""
        if self.result is None or self.stale:
            return "warn"
        return "good" if self.declared else "bad"

    @property
    def notices(self) -> list[str]:
        """Return what a reader must know before believing the result."""
        notes = []
        if self.result is None:
            notes.append(f"Not recorded on {self.device.upper()} yet.")
        elif not self.declared:
            notes.append(f"The run did not end as the example declares: {self.problem}")
        if self.stale:
            notes.append(f"Stale: {', '.join(self.reasons) or 'the code changed since'}.")
        if self.pending:
            notes.append(f"Pending: {self.pending}")
        if self.local:
            notes.append("Local: made on the machine that built this page, not a committed record.")
        return [*notes, self.torch_note] if self.torch_note else notes

    @property
    def todo(self) -> str:
        """Say what to type to record it."""
        only = f"--only {self.example.id} --device {self.device}"
        return f"type: python -m fba_lab record {only}"


def all_of(example: Example, site: build.Build) -> list[Shown]:
    """Return every result of an example: required devices first, then extra ones that have one."""
    bases = [record.RECORDS, record.LOCAL] if site.mode == "run" else [record.RECORDS]
    pattern = f"*/{example.block}/{example.name}.json"
    files = [path for base in bases for path in (site.root / base).glob(pattern)]
    required = record.required(example)
    extra = {path.parent.parent.name for path in files} - set(required)
    return [one(example, device, site) for device in [*required, *sorted(extra)]]


def chosen(example: Example, device: str | None, site: build.Build) -> list[Shown]:
    """Return the results that a page speaks of, after noting what is wrong with the required ones.

    Raises:
        LabProblem: when the example has no such device; names the nearest.
    """
    found = all_of(example, site)
    if device is not None:
        names = [one.device for one in found]
        if device not in names:
            raise LabProblem(f"{example.id} has no device '{device}'" + nearest(device, names))
        found = [one for one in found if one.device == device]
    for shown in found:
        answer_for(shown, site)
    return found


def example(example_id: str, site: build.Build) -> Example:
    """Return an example, or raise with the nearest ids."""
    if not site.examples:
        site.examples = examples.discover(site.root)
    return site.examples.get(example_id) or examples.get(example_id, site.root)


def one(example: Example, device: str, site: build.Build) -> Shown:
    """Return the result of an example on a device; in mode `run` a local one may stand in."""
    pair = (example.id, device)
    if pair not in site.results:
        site.results[pair] = _one(example, device, site)
    return site.results[pair]


def _one(example: Example, device: str, site: build.Build) -> Shown:
    state = record.state(example, device, site.root, local=site.mode == "run")
    return of_state(example, device, state, site.root)


def of_state(example: Example, device: str, state: record.State, root: Path) -> Shown:
    """Return a record as it is shown, from whether it holds today."""
    result = readable(state.record, root) if state.record else None
    return Shown(
        example=example,
        device=device,
        result=result,
        status=state.status,
        reasons=tuple(state.reasons),
        pending=state.pending,
        problem=state.problem,
        local=state.local,
        folder=state.folder,
        torch_note=_torch_note(result, root) if result else "",
    )


def _torch_note(result: Mapping[str, Any], root: Path) -> str:
    """Say so when a record was made with a torch that the trainer doesn't support."""
    made = str(result["provenance"].get("torch") or "")
    try:
        low, high = constant.look_up(root / "snippets" / "train_gpt.py", "TORCH_SUPPORTED")
    except (LabProblem, OSError, ValueError):
        return ""
    version = re.match(r"(\d+)\.(\d+)", made)
    bounds = [tuple(map(int, text.split(".")[:2])) for text in (low, high)]
    if version is None or bounds[0] <= tuple(map(int, version.groups())) <= bounds[1]:
        return ""
    return f"Made with another torch: {made}; the trainer supports {low} to {high}."


def answer_for(shown: Shown, site: build.Build) -> None:
    """Note what is wrong with a result, once in a build, at the fence in work."""
    pair = (shown.example.id, shown.device)
    if pair in site.answered:
        return
    site.answered.add(pair)
    name = f"{shown.example.id} on {shown.device}"
    required = shown.device in record.required(shown.example) and not shown.pending
    if shown.result is not None and not shown.declared:
        site.report(f"{name} ended otherwise than declared: {shown.problem}", shown.todo)
    if required and shown.status == "missing":
        site.report(f"no record of {name}", shown.todo)
    elif required and shown.status == "stale":
        site.report(f"the record of {name} is stale: {', '.join(shown.reasons)}", shown.todo)


def readable(recorded: record.Record, root: Path) -> dict[str, Any]:
    """Return a record as JSON with its place tokens turned into today's lines."""
    result = dataclasses.asdict(recorded)
    result["text"] = scrub.render_places(result["text"], root)
    if result.get("error"):
        message = scrub.render_places(result["error"]["message"], root)
        result["error"] = {**result["error"], "message": message}
    for table in result["tables"]:
        table["rows"] = [
            [scrub.render_places(cell, root) if isinstance(cell, str) else cell for cell in row]
            for row in table["rows"]
        ]
    return result


def frames(error: Mapping[str, Any], root: Path) -> list[Frame]:
    """Return the frames of an error with today's lines."""
    found = []
    for frame in error["frames"]:
        spot = places.to_line(
            frame["definition"], frame["offset"], root=root, text=frame["line_text"]
        )
        file, line = (spot.file, spot.line) if spot else ("", None)
        found.append(Frame(file, line, frame["definition"], frame["line_text"]))
    return found


def named(shown: Shown, kind: str, name: str) -> Mapping[str, Any]:
    """Return the metric, series or table of this name, or raise with the nearest names."""
    entries = {entry["name"]: entry for entry in (shown.result or {}).get(kind, [])}
    if name not in entries:
        what = {"metrics": "metric", "tables": "table"}.get(kind, kind)
        where = f"{shown.example.id} on {shown.device}"
        raise LabProblem(f"{where} has no {what} '{name}'" + nearest(name, list(entries)))
    return entries[name]
