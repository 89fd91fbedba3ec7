"""HTML of one result: what an example gave on one device, and what to know before believing it."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from fba_lab import build, frame, render, results, terminal
from fba_lab import example as examples
from fba_lab.build import LabProblem
from fba_lab.results import Shown

TRACE_NOTE = (
    "Opens another site, ui.perfetto.dev, in a new window, and hands this file over to it inside "
    "your browser. The site may ask whether you trust the page that the file comes from."
)

LONG = 30
"""Rows from which on a table is folded among the results of its example."""


def device(one: Shown, content: str) -> str:
    """Return what belongs to one device as a block that the budget control opens or closes.

    The search leaves results out, or every page would carry all of them. It takes the end of an
    element inside for the end of what is excluded when both have the same name, so this is a
    `section`, and holds none.
    """
    where = escape(one.name)
    summary = render.tag("summary", render.tag("span", where, class_="lab-device"), verdict(one))
    class_ = f"device device-{one.device}"
    body = render.tag("section", content, class_="device__body", data_search_exclude=True)
    return render.tag("details", summary, body, class_=class_, open=True)


def verdict(one: Shown) -> str:
    """Return how a run ended, in the colour of that."""
    return render.tag("span", escape(one.verdict), class_=f"lab-verdict lab-verdict--{one.colour}")


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
        *(_folded(entry, label) for entry in recorded["tables"]),
        _error(one),
        _artefacts(one),
        provenance(one),
    ]
    return render.tag("div", *parts, class_="lab-result")


def table(entry: Mapping[str, Any], label: str) -> str:
    """Return a recorded table."""
    name, label = entry["name"], f"Table {entry['name']} of {label}"
    return render.table(entry["columns"], entry["rows"], caption=name, label=label)


def _folded(entry: Mapping[str, Any], label: str) -> str:
    """Return a recorded table; a long one, such as those that charts are drawn from, is closed."""
    rows = len(entry["rows"])
    if rows <= LONG:
        return table(entry, label)
    return render.folded(f"{entry['name']}: {rows} rows", table(entry, label))


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
    items = [render.tag("li", _artefact(one, file)) for file in one.result["artefacts"]]
    return render.tag("ul", *items, class_="lab-artefacts") if items else ""


def _artefact(one: Shown, file: Mapping[str, Any], **attributes: str | bool) -> str:
    """Return a link to a file beside the record, with its kind and size."""
    url = frame.url(f"records/{one.device}/{one.example.block}/{file['file']}")
    text = f"{escape(file['kind'])}, {render.size(file['bytes'])}"
    return render.tag("a", escape(file["file"]), href=url, **attributes) + f" ({text})"


def traces(one: Shown) -> str:
    """Return each trace of a result: a link, and a button that hands it to the Perfetto UI.

    The button does nothing without the script of the site, which shows it; the link always works.

    Raises:
        LabProblem: when the result has no trace.
    """
    assert one.result is not None
    found = [file for file in one.result["artefacts"] if file["kind"] == "trace"]
    if not found:
        what = f"{one.example.id} on {one.device} has no artefact of kind trace"
        raise LabProblem(what, "name a device that has one, or record one")
    title = f"{one.example.id} on {one.device}"
    return "".join(_trace(one, file, title) for file in found)


def _trace(one: Shown, file: Mapping[str, Any], title: str) -> str:
    link = render.tag("p", _artefact(one, file, download=True))
    button = render.tag("button", "Open in Perfetto", type="button", class_="lab-trace__button")
    said = render.tag("p", class_="lab-trace__said", role="status")
    note = render.tag("p", TRACE_NOTE, class_="lab-trace__note")
    opens = render.tag("div", button, note, said, class_="lab-trace__open", hidden=True)
    return render.tag("div", link, opens, class_="lab-trace", data_trace=title)


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
