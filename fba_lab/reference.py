"""The reference of results: every recorded number, its provenance, and the page that shows it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from fba_lab import (
    build,
    catalogue,
    fences,
    frame,
    notebook,
    output,
    record,
    render,
    results,
    suite,
    terminal,
    view,
)
from fba_lab.results import Shown

OTHERS = {notebook.GROUP: "Notebooks", suite.example().block: "Tests on a GPU"}
"""Titles of the groups of records that belong to no block."""
COLUMNS = render.METRIC_COLUMNS
DIGITS = 6  # as `python -m fba_lab report` prints them
CALL = re.compile(r"""\bpages\.(\w+)\(\s*["']([\w/-]+)["']""")


def numbers(site: build.Build) -> str:
    """Return the numbers of all records by block and device, and a list of the blocks in front."""
    found = _recorded(site)
    where = places(site)
    titles = {block.id: block.title for block in catalogue.BLOCKS} | OTHERS
    groups = [(name, title, found[name]) for name, title in titles.items() if name in found]
    parts = [_group(name, title, inside, where) for name, title, inside in groups]
    links = [_entry(*group) for group in groups]
    contents = render.tag("ul", *links, class_="lab-contents")
    # A `section` for the search's sake: see output.device.
    return render.tag("section", contents, *parts, class_="lab-results", data_search_exclude=True)


def _recorded(site: build.Build) -> dict[str, list[Shown]]:
    """Return the results there are, by block or other group."""
    found: dict[str, list[Shown]] = {}
    for each in notebook.everything(site.root).values():
        for one in results.all_of(each, site):
            if one.result is not None:
                found.setdefault(each.block, []).append(one)
    tests = suite.example(site.root)
    for path in sorted((site.root / record.RECORDS).glob(f"*/{tests.block}/{tests.name}.json")):
        device = path.parent.parent.name
        if state := suite.state(device, site.root):
            shown = results.of_state(tests, device, state, site.root)
            found.setdefault(tests.block, []).append(shown)
    return found


def _entry(name: str, title: str, found: Sequence[Shown]) -> str:
    count = sum(len(one.result["metrics"]) for one in found if one.result)
    link = render.tag("a", escape(title), href=f"#results-{name}")
    return render.tag("li", f"{link}: {_counted(count, 'number')}")


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 or noun == "series" else "s")


def _group(name: str, title: str, found: Sequence[Shown], where: Mapping[str, str]) -> str:
    """Return the results of a block, or of what belongs to none: a table for each device."""
    parts = [render.tag("h2", escape(title), id=f"results-{name}")]
    for device in dict.fromkeys(sorted((one.device for one in found), key=_rank)):
        here = [one for one in found if one.device == device]
        parts.append(render.tag("h3", device.upper(), id=f"results-{name}-{device}"))
        parts.append(_table(here, where, f"Numbers of {title} on {device}"))
    return "".join(parts)


def _rank(device: str) -> tuple[bool, str]:
    return device != "cpu", device


def _table(found: Iterable[Shown], where: Mapping[str, str], label: str) -> str:
    """Return a table with a body for each example, headed by where its numbers are from."""
    class_ = {"median": "num", "n": "num"}
    heads = (render.tag("th", name, scope="col", class_=class_.get(name)) for name in COLUMNS)
    bodies = (render.tag("tbody", _head(one, where), *_rows(one)) for one in found)
    head = render.tag("thead", render.tag("tr", *heads))
    inner = render.tag("table", head, *bodies, class_="lab-grid")
    return render.region("div", inner, label, class_="lab-table lab-table--grouped")


def _head(one: Shown, where: Mapping[str, str]) -> str:
    """Return the row above an example's numbers: which, how it ended, and its provenance."""
    assert one.result is not None
    url, name = where.get(one.example.id), escape(one.example.id)
    link = render.tag("a", name, href=url) if url else f"{name} (on no page)"
    kinds = (("tables", "table"), ("series", "series"), ("artefacts", "file"))
    also = [_counted(len(one.result[key]), noun) for key, noun in kinds if one.result[key]]
    words = terminal.provenance(one.result) + (f" · also {', '.join(also)}" if also else "")
    line = render.tag("span", escape(words), class_="lab-provenance")
    inner = render.tag("div", link, " ", output.verdict(one), line, class_="lab-table__where")
    cell = render.tag("th", inner, colspan=len(COLUMNS), scope="rowgroup")
    return render.tag("tr", cell, class_="lab-table__group")


def _rows(one: Shown) -> list[str]:
    """Return a row for each number, and one for the error that the run ended with."""
    assert one.result is not None
    rows = [_number(metric) for metric in one.result["metrics"]]
    if error := one.result.get("error"):
        message = render.CONTROL.sub("", error["message"]).strip().splitlines() or [""]
        first = message[0] if len(message[0]) <= 160 else message[0][:160] + " …"
        words = render.tag("strong", escape(error["type"])) + f": {escape(first)}"
        inner = render.tag("div", words, class_="lab-table__where")
        cell = render.tag("td", inner, colspan=len(COLUMNS))
        rows.append(render.tag("tr", cell, class_="lab-table__error"))
    return rows


def _number(metric: Mapping[str, Any]) -> str:
    value = render.tag("td", render.number(metric["value"], DIGITS), class_="num")
    return render.tag(
        "tr",
        render.tag("td", escape(metric["name"])),
        value,
        render.tag("td", escape(metric["unit"])),
        render.tag("td", render.spread(metric, DIGITS)),
        render.tag("td", str(metric["n"]), class_="num"),
    )


def places(site: build.Build) -> dict[str, str]:
    """Return the URL, from the page in work, of the place where each example is shown.

    That is where a page has its source and output, else a page that speaks of it at all.
    """
    shown: dict[str, str] = {}
    spoken: dict[str, str] = {}
    for path, url in site.pages.items():
        file = site.root / "docs" / path
        if file.suffix == notebook.SUFFIX:
            shown[f"{notebook.GROUP}/{file.stem}"] = frame.url(url)
        if file.suffix != ".md" or not file.is_file():
            continue
        text = file.read_text(encoding="utf-8")
        for call, name in _calls(text):
            if call == "show":
                shown.setdefault(name, frame.url(url, f"#{render.slug(name)}"))
            main = view.main_example(name, site.root) if call == "terminal" else None
            spoken.setdefault(main.id if main else name, frame.url(url))
        for name in re.findall(r"""["']([a-z0-9-]+/[a-z0-9-]+)["']""", text):
            spoken.setdefault(name, frame.url(url))
    return spoken | shown


def _calls(text: str) -> list[tuple[str, str]]:
    """Return the calls of a page's fences, as name and first argument."""
    pieces = (piece for piece in fences.split(text) if piece.evaluated)
    return [(found[1], found[2]) for piece in pieces for found in CALL.finditer(piece.body)]
