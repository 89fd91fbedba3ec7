"""Places in code that survive edits elsewhere: (definition, statement) instead of a line number."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from fba_lab.example import ROOT
from fba_lab.syntax import DEFINITIONS, BadSource, code, parse, source_lines

PACKAGE = "snippets"
TOP = "<module>"


class Place(NamedTuple):
    """A statement, named so that comments, layout and other definitions cannot shift it."""

    definition: str
    """Module and qualified name, "train_gpt.GPT.forward"; at the top level "train_gpt.<module>"."""
    offset: int
    """Ordinal of the statement among those of the definition, docstrings left out."""
    within: int
    """Lines from the start of the statement."""


class Spot(NamedTuple):
    """A line of today's file."""

    file: str
    """Relative to the repository, with forward slashes."""
    line: int
    """1-based."""


def to_place(path: Path, line: int, root: Path = ROOT) -> Place | None:
    """Return the place of a line of a file under snippets/, or None when it is in no statement."""
    home = Path(root).resolve() / PACKAGE
    if not Path(path).resolve().is_relative_to(home):
        return None
    parts = Path(path).resolve().relative_to(home).parts
    module = ".".join(parts).removesuffix(".py")
    place = None
    for definition, offset, node in _statements(parse(Path(path), root).body, TOP):
        start = _start(node)
        if start <= line <= (node.end_lineno or start):
            place = Place(f"{module}.{definition}", offset, line - start)
    return place


def to_line(
    definition: str, offset: int, root: Path = ROOT, *, within: int = 0, text: str = ""
) -> Spot | None:
    """Return today's file and line of a place, or None when the statement is gone.

    Args:
        definition: as in a Place.
        offset: as in a Place.
        root: the repository.
        within: as in a Place; used when no line of the statement reads `text`.
        text: the line as it was recorded, stripped; tells the lines of one statement apart.
    """
    found = _file(definition, Path(root).resolve())
    if found is None:
        return None
    path, name = found
    try:
        body = parse(path, root).body
    except BadSource:
        return None
    for candidate, ordinal, node in _statements(body, TOP):
        if (candidate, ordinal) == (name, offset):
            line = _line(node, within, text, path)
            return Spot(path.relative_to(Path(root).resolve()).as_posix(), line)
    return None


def file_of(definition: str, root: Path = ROOT) -> str | None:
    """Return the file that a definition belongs to, relative to the repository, if it is there."""
    found = _file(definition, Path(root).resolve())
    return found[0].relative_to(Path(root).resolve()).as_posix() if found else None


def _file(definition: str, root: Path) -> tuple[Path, str] | None:
    parts = definition.split(".")
    for count in range(len(parts) - 1, 0, -1):
        path = root.joinpath(PACKAGE, *parts[:count]).with_suffix(".py")
        if path.is_file():
            return path, ".".join(parts[count:])
    return None


def _line(node: ast.stmt, within: int, text: str, path: Path) -> int:
    start, end = _start(node), node.end_lineno or _start(node)
    if text:
        lines = source_lines(path.read_text(encoding="utf-8"))[start - 1 : end]
        same = [number for number, line in enumerate(lines, start) if line.strip() == text]
        if same:
            return same[0]
    return min(start + within, end)


def _start(node: ast.stmt) -> int:
    decorators = getattr(node, "decorator_list", [])
    return min([node.lineno, *(one.lineno for one in decorators)])


def _statements(body: list[ast.stmt], name: str) -> Iterator[tuple[str, int, ast.stmt]]:
    """Yield (definition, ordinal, statement) of a body and, after it, of definitions inside."""
    own = list(_preorder(body))
    for ordinal, node in enumerate(own):
        yield name, ordinal, node
    for node in own:
        if isinstance(node, DEFINITIONS):
            inner = node.name if name == TOP else f"{name}.{node.name}"
            yield from _statements(node.body, inner)


def _preorder(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield statements, and those inside if, for, with, try; not those of inner definitions."""
    for node in code(body):
        yield node
        if not isinstance(node, DEFINITIONS):
            yield from _preorder(_inside(node))


def _inside(node: ast.AST) -> list[ast.stmt]:
    found: list[ast.stmt] = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            found.append(child)
        elif isinstance(child, ast.ExceptHandler | ast.match_case):
            found += _inside(child)
    return found
