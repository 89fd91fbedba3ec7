"""Turns what a run did into the record that is kept of it: scrubbed, cut, in its final shape."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import re
import zlib
from collections.abc import Callable
from pathlib import Path

from fba_lab import depend, scrub
from fba_lab.example import Example
from fba_lab.place import to_place
from fba_lab.record import JsonDict, Record
from fba_lab.run import Outcome

MESSAGE_LIMIT = 16 * 1024
SUFFIXES = {
    "svg": ".svg",
    "png": ".png",
    "trace": ".json.gz",
    "code": ".py",
    "text": ".txt",
    "json": ".json",
}


def make(
    example: Example, device: str, outcome: Outcome, key: depend.Key, provenance: JsonDict
) -> tuple[Record, dict[str, bytes]]:
    """Return the record of a run and the content of its artefacts by file name, both scrubbed."""

    def clean(text: str) -> str:
        return scrub.scrub(text, outcome.folders, example.root)

    kinds: dict[str, list[JsonDict]] = {"metric": [], "series": [], "table": []}
    for event in outcome.events:
        if event["event"] in kinds:
            rest = {name: value for name, value in event.items() if name != "event"}
            kinds[event["event"]].append(scrub.scrubbed(rest, clean))  # type: ignore[arg-type]
    artefacts, files = _artefacts(example, outcome, clean)
    record = Record(
        example=example.id,
        device=device,
        key=key.hash,
        key_parts=key.parts,
        status=outcome.status,
        text=_text(outcome, clean),
        metrics=kinds["metric"],
        series=kinds["series"],
        tables=kinds["table"],
        artefacts=artefacts,
        error=_error(outcome, example.root, clean),
        seconds=round(outcome.seconds, 3),
        peak_bytes=outcome.peak_bytes,
        provenance=scrub.scrubbed(provenance, clean),  # type: ignore[arg-type]
    )
    return record, files


def _text(outcome: Outcome, clean: Callable[[str], str]) -> str:
    if not outcome.left_out:
        return scrub.cut(clean(outcome.output.decode("utf-8", "replace")))
    half = len(outcome.output) // 2
    head = clean(outcome.output[:half].decode("utf-8", "replace"))
    tail = clean(outcome.output[half:].decode("utf-8", "replace"))
    return scrub.cut(head + tail, outcome.left_out, len(head))


def _error(outcome: Outcome, root: Path, clean: Callable[[str], str]) -> JsonDict | None:
    if outcome.error is None:
        return None
    frames = []
    for frame in outcome.error["frames"]:
        place = to_place(Path(frame["file"]), frame["line"], root)
        if place is not None:
            text = clean(frame["line_text"])
            frames.append(
                {"definition": place.definition, "offset": place.offset, "line_text": text}
            )
    message = scrub.cut(clean(outcome.error["message"]), limit=MESSAGE_LIMIT)
    return {"type": clean(outcome.error["type"]), "message": message, "frames": frames}


def _artefacts(
    example: Example, outcome: Outcome, clean: Callable[[str], str]
) -> tuple[list[JsonDict], dict[str, bytes]]:
    rows, files = [], {}
    events = [event for event in outcome.events if event["event"] == "artefact"]
    for event, content in zip(events, outcome.files, strict=True):
        content = _clean_file(content, clean, event["kind"])
        digest = hashlib.sha256(content).hexdigest()
        stem = re.sub(r"[^a-z0-9]+", "-", Path(event["path"]).name.split(".")[0].lower()).strip("-")
        name = f"{example.name}.{stem}.{digest[:10]}{SUFFIXES[event['kind']]}"
        files[name] = content
        rows.append({"file": name, "kind": event["kind"], "bytes": len(content), "sha256": digest})
    return rows, files


def _clean_file(content: bytes, clean: Callable[[str], str], kind: str) -> bytes:
    """Return a file without paths and names, as far as it is text, also inside gzip."""
    if kind == "json":  # what is cleaned by line has to be a line, not half of a quoted one
        with contextlib.suppress(ValueError, RecursionError):
            values = scrub.scrubbed(json.loads(content), clean)
            return (json.dumps(values, indent=1, ensure_ascii=False) + "\n").encode()
    if content[:2] == b"\x1f\x8b":
        with contextlib.suppress(OSError, EOFError, UnicodeDecodeError, zlib.error):
            inner = clean(gzip.decompress(content).decode("utf-8"))
            return gzip.compress(inner.encode(), mtime=0)
    with contextlib.suppress(UnicodeDecodeError):
        return clean(content.decode("utf-8")).encode()
    return content
