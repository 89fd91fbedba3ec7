"""The frame of a block page: where the reader is, what they asked for, and all there is."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from fba_lab import build, catalogue, render, view

TRAINER = Path("snippets") / "train_gpt.py"
HARDWARE = {
    "any": "any hardware, also a CPU",
    "cuda": "needs a CUDA GPU",
    "fp8": "needs a GPU with FP8 (sm89 or newer)",
    "ranks": "needs several processes",
}
CONTROLS = {
    "level": {"learner": "Learner", "engineer": "Engineer"},
    "budget": {"none": "No GPU", "one": "One GPU", "eight": "Eight GPUs"},
}


def header(entry: catalogue.Block, needs: Sequence[catalogue.Block], explanation: str) -> str:
    """Return breadcrumb, place, hardware, the reader's controls, all blocks and the summary."""
    place = view.place(entry.id, build.current.root)
    source = build.current.sources.get(TRAINER.as_posix())
    file = render.tag("a", TRAINER.name, href=url(source)) if source else TRAINER.name
    crumbs = render.tag(
        "nav",
        render.tag("ol", render.tag("li", file), render.tag("li", escape(entry.title))),
        class_="lab-crumbs",
        aria_label="Breadcrumb",
    )
    of = f"{place[0]}/{place[1]}" if place else ""
    position = render.tag("span", of, class_="lab-place", title="Place among the blocks")
    badge = render.tag("span", HARDWARE[entry.hardware], class_="lab-badge")
    drawer = render.tag(
        "details", render.tag("summary", "All blocks"), blocks(entry.id), class_="lab-drawer"
    )
    bar = render.tag("div", crumbs, position if of else "", badge, class_="lab-bar")
    controls = render.tag("div", *map(_control, CONTROLS), drawer, class_="lab-controls")
    link = render.tag("a", "Full explanation below the code →", href=f"#{explanation}")
    summary = render.tag(
        "div",
        render.tag("p", render.tag("strong", "Quick summary. "), escape(entry.summary)),
        _needs(needs),
        render.tag("p", link, class_="lab-more"),
        class_="lab-summary",
    )
    return render.tag("div", bar, controls, summary, class_="lab-header")


def _control(name: str) -> str:
    """Return one segmented control; the script shows it, as it does nothing without."""
    legend = render.tag("legend", name.capitalize())
    options = [
        "<label>"
        f'<input type="radio" name="lab-{name}" value="{value}"{" checked" if not at else ""}>'
        f"<span>{label}</span></label>"
        for at, (value, label) in enumerate(CONTROLS[name].items())
    ]
    inner = render.tag("div", *options, class_="lab-segments")
    return render.tag("fieldset", legend, inner, class_="lab-control", data_lab_control=name)


def _needs(needs: Sequence[catalogue.Block]) -> str:
    if not needs:
        return ""
    links = ", ".join(map(_block_link, needs))
    return render.tag("p", f"Read first: {links}")


def url(path: str | None, fragment: str = "") -> str:
    """Return the URL of something of this site, from the page in work."""
    return f"{build.current.to_root}{path or ''}{fragment}"


def _block_link(entry: catalogue.Block, here: str = "") -> str:
    title = escape(entry.title)
    if entry.id == here:
        return render.tag("strong", title, aria_current="page")
    page = build.current.pages.get(f"blocks/{entry.id}.md")
    return render.tag("a", title, href=url(page)) if page else title


def blocks(here: str = "") -> str:
    """Return all blocks by section; those with a page are links, the one here is marked."""
    groups = []
    for section in catalogue.SECTIONS:
        entries = [one for one in catalogue.BLOCKS if one.section == section]
        items = [render.tag("li", _block_link(one, here)) for one in entries]
        title = render.tag("p", escape(section), class_="lab-blocks__section")
        groups.append(render.tag("div", title, render.tag("ul", *items)) if items else "")
    # A `section` for the search's sake: see output.device.
    return render.tag("section", *groups, class_="lab-blocks", data_search_exclude=True)
