"""HTML of one result: what an example gave on one device, and what to know before believing it."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from fba_lab import build, frame, render, results, terminal
from fba_lab import example as examples
from fba_lab.results import Shown


def device(one: Shown, content: str) -> str:
    """Return what belongs to one device as a block that the budget control opens or closes."""
    where = escape(one.name)
    mark = render.tag("span", escape(one.verdict), class_=f"lab-verdict lab-verdict--{one.colour}")
    summary = render.tag("summary", render.tag("span", where, class_="lab-device"), mark)
    class_ = f"device device-{one.device}"
    return render.tag("details", summary, content, class_=class_, open=True)


def result(one: Shown) -> str:
    """Return everything of one result: notices, text, numbers, tables, error, files, provenance."""
    notices = [render.tag("p", escape(text), class_="lab-notice") for text in one.notices]
    if one.result is None:
        return "".join(notices)
    recorded, label = one.result, f"{one.example.name} on {one.name}"
    parts = [
        *notices,
        render.output(recorded["text"], f"Output of {label}"),
        render.metrics(recorded["metrics"], f"Metrics of {label}"),
        *(table(entry, label) for entry in recorded["tables"]),
        _error(one),
        _artefacts(one),
        provenance(one),
    ]
    return render.tag("div", *parts, class_="lab-result", data_search_exclude=True)


def table(entry: Mapping[str, Any], label: str) -> str:
    """Return a recorded table."""
    name, label = entry["name"], f"Table {entry['name']} of {label}"
    return render.table(entry["columns"], entry["rows"], caption=name, label=label)


def _error(one: Shown) -> str:
    assert one.result is not None
    error = one.result.get("error")
    if not error:
        return ""
    frames = [
        (line.place, _frame_url(line, one.example), line.text)
        for line in results.frames(error, build.current.root)
    ]
    label = f"Error of {one.example.name} on {one.name}"
    return render.error(error["type"], error["message"], frames, label)


def _frame_url(place: results.Frame, example: examples.Example) -> str:
    if place.line is None:
        return ""
    if place.file == example.file:
        return f"#{render.slug(example.id)}-{place.line}"
    page = build.current.sources.get(place.file)
    return frame.url(page, f"#{Path(place.file).stem}-{place.line}") if page else ""


def _artefacts(one: Shown) -> str:
    assert one.result is not None
    items = []
    for file in one.result["artefacts"]:
        url = frame.url(f"records/{one.device}/{one.example.block}/{file['file']}")
        text = f"{escape(file['kind'])}, {render.size(file['bytes'])}"
        link = render.tag("a", escape(file["file"]), href=url)
        items.append(render.tag("li", link, f" ({text})"))
    return render.tag("ul", *items, class_="lab-artefacts") if items else ""


def provenance(one: Shown) -> str:
    """Return the line that says where, when and with what a result was made."""
    assert one.result is not None
    peak = one.result.get("peak_bytes")
    words = [
        terminal.provenance(one.result),
        f"{one.result['seconds']:.1f} s",
        f"peak {render.size(peak)}" if peak else "",
    ]
    return render.tag("p", escape(" · ".join(filter(None, words))), class_="lab-provenance")
