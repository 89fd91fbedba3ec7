"""Views of a block: what `study` and the panel on its page show, gathered from the files."""

from __future__ import annotations

import dataclasses
import functools
import re
from pathlib import Path

from fba_lab import example as examples
from fba_lab import locate
from fba_lab.catalogue import BLOCKS, Block, folder
from fba_lab.example import ROOT, Example
from fba_lab.results import Shown
from fba_lab.syntax import source_lines
from fba_lab.terminal import View

QUESTION = re.compile(r'^[ \t]*\?\?\?\+?\s+question\s+"(?P<title>[^"]+)"', re.MULTILINE)
HINT = re.compile(r"\{\{.*?\}\}")


class Misuse(ValueError):
    """Wrong use or input that cannot be read; the message is one line."""


def find_file(name: str, root: Path = ROOT) -> Path:
    """Return the file meant: the one named, else the one of that name under snippets/."""
    for path in (Path(name), root / "snippets" / Path(name).name) if name else ():
        if path.is_dir():
            raise Misuse(f"{name} is a folder; give a Python file")
        if path.is_file():
            _check_text(path, name)
            if all(one.status == "absent" for one in located(path).values()):
                raise Misuse(f"{name} has none of the blocks; give a trainer such as train_gpt.py")
            return path
    raise Misuse(f"no file {name or 'is named'}; give a trainer such as train_gpt.py")


def _check_text(path: Path, name: str) -> None:
    data = path.read_bytes()
    if not data.strip():
        raise Misuse(f"{name} is empty; give a trainer such as train_gpt.py")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise Misuse(f"{name} is not text; give a Python file")


def place(block_id: str, root: Path) -> tuple[int, int] | None:
    """Return a block's place n of N among the taught blocks that have a page."""
    ids = [b.id for b in BLOCKS if b.taught and (root / "docs/blocks" / f"{b.id}.md").is_file()]
    return (ids.index(block_id) + 1, len(ids)) if block_id in ids else None


def main_example(block_id: str, root: Path) -> Example | None:
    """Return the example of a block that `study` runs; only this block's examples are read."""
    root = Path(root).resolve()
    files = sorted((root / examples.FOLDER / folder(block_id)).glob("[!_]*.py"))
    return next((one for one in (examples.read(path, root) for path in files) if one.main), None)


def question(block_id: str, root: Path) -> str:
    """Return the first question that the block's page asks, without its macros."""
    try:
        text = (root / "docs/blocks" / f"{block_id}.md").read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    found = QUESTION.search(text)
    return HINT.sub("…", found["title"]) if found else ""


def located(path: Path) -> dict[str, locate.Location]:
    """Return where all blocks of a file are; a page and its panels ask for the same file."""
    return _located(path, path.stat().st_mtime_ns)


@functools.lru_cache(maxsize=4)
def _located(path: Path, modified_ns: int) -> dict[str, locate.Location]:
    del modified_ns  # only makes the cache forget an edited file
    return locate.locate(path)


def of_file(name: str, path: Path, block: Block, root: Path, level: str = "learner") -> View:
    """Return a block of a file, ready to be shown, without a result."""
    found = located(path)[block.id]
    return View(
        file=name,
        path=path,
        block=block,
        spans=tuple(found.spans),
        lines=tuple(source_lines(path.read_text(encoding="utf-8"))),
        level=level,
        place=place(block.id, root),
        example=main_example(block.id, root),
        question=question(block.id, root),
    )


def with_result(empty: View, shown: Shown) -> View:
    """Return a view with a recorded result in it, and what is to be known about it."""
    note = " ".join(
        text for text in shown.notices if shown.problem is None or shown.problem not in text
    )
    return dataclasses.replace(
        empty, result=shown.result, device=shown.device, problem=shown.problem, note=note
    )
