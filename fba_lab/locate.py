"""Finds blocks in a train_gpt.py, any train_gpt.py, by the structure of its syntax tree."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fba_lab.block import Block, Find
from fba_lab.catalogue import BLOCKS
from fba_lab.syntax import DEFINITIONS, FUNCTIONS, BadSource, parse, source_lines

_MARKER = re.compile(r"\s*# --8<-- \[(start|end):([\w-]+)\]\s*")
_KINDS: dict[str, tuple[type[ast.stmt], ...]] = {
    "function": FUNCTIONS,
    "class": (ast.ClassDef,),
    "assign": (ast.Assign, ast.AnnAssign),
    "call": (ast.Expr,),
}


@dataclass(frozen=True, slots=True)
class Span:
    """Lines of a file, 1-based and inclusive."""

    file: str
    start: int
    end: int
    primary: bool


@dataclass(frozen=True, slots=True)
class Location:
    """Where a block is in a file."""

    block: str
    """Its id."""
    status: str
    """found, several, absent, or moved (to another file)."""
    spans: tuple[Span, ...]
    """In order of the file; one of them is primary."""
    note: str = ""
    """Why it is several or absent."""


@dataclass(frozen=True)
class _Statement:
    """A statement with the definition around it, the body that it stands in, and what is in it.

    What is in it is looked up once, since every block asks for it.
    """

    node: ast.stmt
    inside: str
    body: int

    @functools.cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.node))

    @functools.cached_property
    def kinds(self) -> set[str]:
        return {type(one).__name__ for one in self.nodes}

    @functools.cached_property
    def words(self) -> list[str]:
        return list(dict.fromkeys(_words(self.nodes)))

    @functools.cached_property
    def calls(self) -> list[tuple[str, ast.Call]]:
        decorators = _decorators(self.node)
        found = [one for one in self.nodes if isinstance(one, ast.Call) and one not in decorators]
        return [(_dotted(call.func), call) for call in found]


def locate(path: Path | str) -> dict[str, Location]:
    """Return where each block of the catalogue is in a file, in order of the catalogue.

    Raises:
        BadSource: when the file cannot be read or is not valid Python.
    """
    path = Path(path)
    tree = parse(path)
    lines = _lines(path)
    statements = list(_walk(tree.body, ""))
    return {block.id: _locate(block, statements, lines, str(path)) for block in BLOCKS}


def markers(path: Path | str) -> dict[str, Span]:
    """Return the lines between our markers, by block id.

    Raises:
        BadSource: when a marker is not closed, not open, or there twice.
    """
    path = Path(path)
    lines, open_at, spans = _lines(path), {}, {}
    for number, line in enumerate(lines, 1):
        match = _MARKER.fullmatch(line)
        if not match:
            continue
        kind, name = match.groups()
        if (kind == "start") == (name in open_at) or (kind == "start" and name in spans):
            raise BadSource(f"{path}:{number}: marker [{kind}:{name}] has no partner, or is twice")
        if kind == "start":
            open_at[name] = number
        else:
            spans[name] = _inside(lines, open_at.pop(name), number, str(path))
    for name, number in open_at.items():
        raise BadSource(f"{path}:{number}: marker [start:{name}] is never closed")
    return spans


def _lines(path: Path) -> list[str]:
    return source_lines(path.read_text(encoding="utf-8", errors="replace"))


def _inside(lines: list[str], start: int, end: int, file: str) -> Span:
    def is_content(number: int) -> bool:
        return bool(lines[number - 1].strip()) and not _MARKER.fullmatch(lines[number - 1])

    content = [number for number in range(start + 1, end) if is_content(number)]
    if not content:
        raise BadSource(f"{file}:{start}: nothing between this marker and its end")
    return Span(file, content[0], content[-1], True)


def _walk(body: list[ast.stmt], inside: str) -> Iterator[_Statement]:
    for node in body:
        yield _Statement(node, inside, id(body))
        name = f"{inside}.{node.name}".strip(".") if isinstance(node, DEFINITIONS) else inside
        for _, inner in ast.iter_fields(node):
            if isinstance(inner, list) and inner and isinstance(inner[0], ast.stmt):
                yield from _walk(inner, name)
            elif isinstance(inner, list):
                for part in inner:  # except handlers and match cases
                    yield from _walk(getattr(part, "body", []), name)


def _locate(block: Block, statements: list[_Statement], lines: list[str], file: str) -> Location:
    for way in block.find:
        groups: dict[int, list[_Statement]] = {}
        for statement in statements:
            if _matches(way[0], statement):
                groups.setdefault(statement.body, []).append(statement)
        spans = [
            _span([*group, *_others(way[1:], group, statements)], lines, file, not number)
            for number, group in enumerate(groups.values())
        ]
        if len(spans) == 1:
            return Location(block.id, "found", tuple(spans))
        if spans:
            note = f"{len(spans)} places fit; the first in the file is taken"
            return Location(block.id, "several", tuple(spans), note)
    return Location(block.id, "absent", (), "nothing of its structure in this file")


def _others(
    finds: tuple[Find, ...], group: list[_Statement], statements: list[_Statement]
) -> list[_Statement]:
    body = group[0].body
    siblings = [one for one in statements if one.body == body]
    return [one for one in siblings if any(_matches(find, one) for find in finds)]


def _span(group: list[_Statement], lines: list[str], file: str, primary: bool) -> Span:
    start = min(_first_line(one.node) for one in group)
    end = max(one.node.end_lineno or one.node.lineno for one in group)
    while start > 1 and _is_comment(lines[start - 2]):
        start -= 1
    if end < len(lines) and lines[end].strip() == "# fmt: on":  # closes what is above it
        end += 1
    return Span(file, start, end, primary)


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith("#") and not _MARKER.fullmatch(line)


def _first_line(node: ast.stmt) -> int:
    return min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])


def _matches(find: Find, statement: _Statement) -> bool:
    node = statement.node
    if not isinstance(node, _KINDS[find.node]):
        return False
    if find.inside is not None and not re.fullmatch(find.inside, statement.inside):
        return False
    if find.name and not any(re.fullmatch(find.name, name) for name in _own_names(node)):
        return False
    if find.decorated and not any(
        re.fullmatch(find.decorated, name) for name in map(_dotted, _decorators(node))
    ):
        return False
    return (
        statement.kinds.issuperset(find.has)
        and all(_calls(statement, wanted, find.first_arg) for wanted in find.calls)
        and all(any(map(re.compile(one).fullmatch, statement.words)) for one in find.mentions)
        and not any(any(map(re.compile(one).fullmatch, statement.words)) for one in find.lacks)
    )


def _calls(statement: _Statement, wanted: str, first_arg: str) -> bool:
    end = re.compile(rf"(.*\.)?({wanted})")
    calls = [call for name, call in statement.calls if end.fullmatch(name)]
    if not first_arg:
        return bool(calls)
    return any(call.args and re.fullmatch(first_arg, ast.unparse(call.args[0])) for call in calls)


def _decorators(node: ast.stmt) -> list[ast.expr]:
    return getattr(node, "decorator_list", [])


def _dotted(node: ast.expr) -> str:
    """Return the name of what is called, or of a decorator: what stands before any brackets."""
    if isinstance(node, ast.Call):
        return _dotted(node.func)
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _own_names(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, DEFINITIONS):
        yield node.name
    targets = getattr(node, "targets", None) or [getattr(node, "target", None)]
    for target in filter(None, targets):
        for one in ast.walk(target):
            if isinstance(one, ast.Attribute):
                yield one.attr
            elif isinstance(one, ast.Name):
                yield one.id


def _words(nodes: list[ast.AST]) -> Iterator[str]:
    for one in nodes:
        for field in ("id", "attr", "arg", "name", "value"):
            word = getattr(one, field, None)
            if isinstance(word, str | int) and not (field == "value" and " " in str(word)):
                yield str(word)
