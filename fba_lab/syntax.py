"""Python source as structure: a dump that no layout changes, and the names that code refers to."""

from __future__ import annotations

import ast
import functools
import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

Chain = tuple[str, ...]
"""A name with its attributes, such as ("train_gpt", "GPT"), or FILE_MARK and a file's name."""

FILE_MARK = "<file>"
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DEFINITIONS = (*FUNCTIONS, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
# Positions are attributes, not fields, so they are out already. `kind` only tells u"" from "".
_LEFT_OUT = {"ctx", "kind", "type_comment", "type_ignores"}
_FILE_IN_TEXT = re.compile(r"(?:\S*/)?snippets[./]([\w./]*\w)|(\w+)\.py")


class BadSource(ValueError):
    """A source file that cannot be read; the message is one line: path:line: what."""


def parse(path: Path, root: Path | None = None) -> ast.Module:
    """Return the syntax tree of a file.

    Raises:
        BadSource: when the file cannot be read or is not valid Python.
    """
    shown = Path(os.path.relpath(path, root)).as_posix() if root else str(path)
    try:
        stat = path.stat()
        return _parse(path, stat.st_mtime_ns, stat.st_size)
    except OSError as error:
        raise BadSource(f"{shown}: {error.strerror}; give the path of a Python file") from None
    except SyntaxError as error:
        raise BadSource(f"{shown}:{error.lineno or 1}: not valid Python: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise BadSource(f"{shown}:1: not valid Python: {error}") from None


@functools.lru_cache(maxsize=256)
def _parse(path: Path, mtime_ns: int, size: int) -> ast.Module:
    content = path.read_bytes()
    return ast.parse(_code_of_notebook(content) if path.suffix == ".ipynb" else content)


def _code_of_notebook(content: bytes) -> str:
    """Return the code of a notebook's cells; what follows each one keeps their borders apart."""
    cells = json.loads(content)["cells"]
    code_cells = [cell for cell in cells if cell["cell_type"] == "code"]
    return "".join(f"{''.join(cell['source'])}\n...\n" for cell in code_cells)


def source_lines(text: str) -> list[str]:
    """Return the lines of source as Python counts them.

    str.splitlines also ends a line at a form feed and at separators of Unicode, which would shift
    every line after it against the syntax tree.
    """
    lines = re.split(r"\r\n|\r|\n", text)
    return lines if lines[-1] else lines[:-1]


def canonical(node: object) -> str:
    """Return a dump of a syntax tree that is the same for the same code on Python 3.11 to 3.13.

    Positions, docstrings (any string that stands alone as a statement) and empty fields are left
    out; ast.dump cannot be used because what it prints differs between these versions.
    """
    if isinstance(node, ast.Constant):
        return _constant(node.value)
    if isinstance(node, ast.JoinedStr):
        return f"JoinedStr[{','.join(_joined(node.values))}]"
    if isinstance(node, ast.AST):
        return _statement(node) if isinstance(node, ast.stmt) else _node(node)
    if isinstance(node, list):
        return f"[{','.join(canonical(item) for item in node)}]"
    return ascii(node)


@functools.lru_cache(maxsize=16_384)  # one tree of the trainer serves all examples
def _statement(node: ast.stmt) -> str:
    return _node(node)


def _node(node: ast.AST) -> str:
    fields = (f"{name}={canonical(value)}" for name, value in _fields(node))
    return f"{type(node).__name__}({','.join(fields)})"


def _constant(value: object) -> str:
    # ascii, not repr: which characters repr escapes depends on the Unicode tables of the version.
    return f"{type(value).__name__}:{value!a}"


def _fields(node: ast.AST) -> Iterator[tuple[str, object]]:
    for name, value in ast.iter_fields(node):
        if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
            value = code(value)
        empty = value is None or value == [] or _is_empty_text(value)
        if name not in _LEFT_OUT and not empty:
            yield name, value


def _is_empty_text(value: object) -> bool:
    return isinstance(value, ast.JoinedStr) and not list(_joined(value.values))


def _joined(values: list[ast.expr]) -> Iterator[str]:
    """Yield the parts of an f-string with neighbouring texts merged: versions split them apart."""
    text = ""
    for value in values:
        if isinstance(value, ast.Constant):
            text += value.value
            continue
        if text:
            yield _constant(text)
        text = ""
        yield canonical(value)
    if text:
        yield _constant(text)


def code(body: Iterable[ast.stmt]) -> list[ast.stmt]:
    """Return the statements that do something: without docstrings and strings under fields."""
    return [node for node in body if not is_text(node)]


def is_text(node: ast.stmt) -> bool:
    """Whether a statement is a string on its own."""
    value = node.value if isinstance(node, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


@functools.lru_cache(maxsize=4096)  # by node: one tree of the trainer serves every example
def references(node: ast.AST) -> tuple[set[Chain], list[ast.Import | ast.ImportFrom]]:
    """Return the names from outside that a piece of code uses, and the imports inside it.

    Names local to a function, lambda or comprehension are left out. A string that is the name of
    a file or module of snippets/ is in, as (FILE_MARK, dotted name): code may open or run it.
    """
    names = _Names()
    names.visit(node)
    return names.found, names.imports


class _Names(ast.NodeVisitor):
    """Collects free names; a scope is (whether of a class, the names bound in it)."""

    def __init__(self) -> None:
        self.found: set[Chain] = set()
        self.imports: list[ast.Import | ast.ImportFrom] = []
        self.scopes: list[tuple[bool, set[str]]] = []

    def visit_Import(self, node: ast.Import) -> None:
        self.imports.append(node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self.imports.append(node)

    def visit_Name(self, node: ast.Name) -> None:
        if not self._is_local(node.id):
            self.found.add((node.id,))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        attributes: list[str] = []
        base: ast.expr = node
        while isinstance(base, ast.Attribute):
            attributes.insert(0, base.attr)
            base = base.value
        if not isinstance(base, ast.Name):
            self.visit(base)
        elif not self._is_local(base.id):
            self.found.add((base.id, *attributes))

    def visit_Expr(self, node: ast.Expr) -> None:
        if not is_text(node):
            self.visit(node.value)

    def visit_Constant(self, node: ast.Constant) -> None:
        match = _FILE_IN_TEXT.fullmatch(node.value) if isinstance(node.value, str) else None
        if match:
            name = (match[1] or match[2]).replace("/", ".").removesuffix(".py")
            self.found.add((FILE_MARK, name))

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._visit_all([*node.decorator_list, node.args, node.returns])
        self._visit_inside(node.body, _arguments(node.args) | _bound(node.body) | _generic(node))

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.visit(node.args)
        self._visit_inside([node.body], _arguments(node.args))

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._visit_all([*node.decorator_list, *node.bases, *node.keywords])
        self._visit_inside(node.body, _bound(node.body), of_class=True)

    def _visit_comprehension(self, node: ast.ListComp) -> None:
        first = node.generators[0].iter  # runs in the scope around the comprehension
        self.visit(first)
        targets = _bound([part.target for part in node.generators])
        self._visit_inside(ast.iter_child_nodes(node), targets)

    visit_ListComp = visit_SetComp = visit_GeneratorExp = visit_DictComp = _visit_comprehension

    def _visit_all(self, nodes: Iterable[ast.AST | None]) -> None:
        for node in nodes:
            if node is not None:
                self.visit(node)

    def _visit_inside(
        self, nodes: Iterable[ast.AST], names: set[str], of_class: bool = False
    ) -> None:
        self.scopes.append((of_class, names))
        self._visit_all(nodes)
        self.scopes.pop()

    def _is_local(self, name: str) -> bool:
        # A name bound in a class body is seen there, but not from the methods below it.
        visible = (scope for scope in self.scopes[:-1] if not scope[0])
        return any(name in names for _, names in (*visible, *self.scopes[-1:]))


def _arguments(args: ast.arguments) -> set[str]:
    several = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
    return {one.arg for one in several if one is not None}


def _generic(node: ast.AST) -> set[str]:
    return {parameter.name for parameter in getattr(node, "type_params", [])}


def _bound(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names that these statements bind in their own scope, imports left out."""
    names: set[str] = set()
    shared: set[str] = set()
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Global):
            shared.update(node.names)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif isinstance(node, (*DEFINITIONS, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
            names.update(filter(None, [node.name]))
        elif isinstance(node, ast.MatchMapping) and node.rest:
            names.add(node.rest)
        if isinstance(node, _COMPREHENSIONS):  # only := reaches out of one
            waiting += [one.target for one in ast.walk(node) if isinstance(one, ast.NamedExpr)]
        elif not isinstance(node, (*DEFINITIONS, ast.Lambda)):
            waiting += ast.iter_child_nodes(node)
    return names - shared


def bound(node: ast.stmt) -> set[str]:
    """Return the names that one module-level statement binds, imports left out."""
    return _bound([node])
