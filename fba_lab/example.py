"""The examples: which there are and what each declares, read from its file without running it."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fba_lab import catalogue, syntax

ROOT = Path(__file__).resolve().parent.parent
"""The repository that the installed package belongs to."""

FOLDER = Path("snippets", "examples")
CACHES = ("shared", "private")

DEFAULTS: dict[str, Any] = {
    "main": False,
    "limit_s": 240,
    "cache": "shared",
    "data": [],
    "raises": None,
    "heavy": False,
}


class BadExample(ValueError):
    """A file under snippets/examples that is not an example; the message is one line."""


class UnknownExample(ValueError):
    """An id that no example has; the message offers the nearest ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One file that shows one thing about one block."""

    id: str
    """Block and name, such as "model-compile/first-steps"."""
    block: str
    """Id of the block that it is about."""
    name: str
    """Its own name in kebab case."""
    path: Path
    """The file, absolute."""
    root: Path
    """The repository that holds it, absolute."""
    title: str
    """First line of its docstring."""
    doc: str
    """The docstring after its first line."""
    devices: tuple[str, ...]
    """Where a record is required."""
    main: bool
    """Whether `study --block` runs this one; exactly one per block."""
    limit_s: float
    """Seconds of wall time after which it is killed."""
    cache: str
    """"shared" within one recording, or "private": starts with empty compile caches."""
    data: tuple[str, ...]
    """Names in snippets/data.json of the token files that it reads."""
    raises: tuple[str, str] | None
    """Type (qualified or bare) and a piece of the message of the error it must end with."""
    heavy: bool
    """Left out of a recording unless asked for."""

    @property
    def file(self) -> str:
        """The file relative to the repository, with forward slashes."""
        return self.path.relative_to(self.root).as_posix()


def discover(root: Path = ROOT) -> dict[str, Example]:
    """Return every example by id, in order of id.

    Raises:
        BadExample: at the first file that breaks a rule, as "path:line: what; what to do".
    """
    root = Path(root).resolve()
    found = [read(path, root) for path in _files(root)]
    known: dict[str, Example] = {}
    for one in found:
        if known.setdefault(one.id, one) is not one:
            raise BadExample(f"{one.file}:1: {known[one.id].file} has the same id; rename one")
    for block in dict.fromkeys(example.block for example in found):
        _check_main([example for example in found if example.block == block])
    return dict(sorted(known.items()))


def get(example_id: str, root: Path = ROOT) -> Example:
    """Return the example of this id, or raise UnknownExample with the nearest ids."""
    examples = discover(root)
    if example_id in examples:
        return examples[example_id]
    hint = catalogue.nearest(example_id, list(examples))
    raise UnknownExample(f"no example is called {example_id!r}{hint}")


def read(path: Path, root: Path = ROOT) -> Example:
    """Return what one example file declares."""
    tree = _parse(path, root)
    lab = _declaration(tree, path, root)
    values = _values(lab, path, root)
    where = _where(path, root, lab.lineno)
    _check_values(values, path, where)
    _check_body(tree, path, root)
    doc = ast.get_docstring(tree) or ""
    title, _, rest = doc.partition("\n")
    if not title.strip():
        raise BadExample(
            f"{_where(path, root, 1)}: no docstring; its first line is the title on the page"
        )
    name = catalogue.block_id(path.stem)
    return Example(
        id=f"{values['block']}/{name}",
        block=values["block"],
        name=name,
        path=path,
        root=root,
        title=title.strip(),
        doc=rest.strip(),
        devices=tuple(values["devices"]),
        main=values["main"],
        limit_s=values["limit_s"],
        cache=values["cache"],
        data=tuple(values["data"]),
        raises=values["raises"] and tuple(values["raises"]),
        heavy=values["heavy"],
    )


def is_lab(node: ast.stmt) -> bool:
    """Whether a statement is the assignment to LAB."""
    targets = node.targets if isinstance(node, ast.Assign) else []
    return any(isinstance(target, ast.Name) and target.id == "LAB" for target in targets)


def _files(root: Path) -> list[Path]:
    found = sorted((root / FOLDER).glob("*/*.py"))
    return [path for path in found if not path.name.startswith("_")]


def _where(path: Path, root: Path, line: int) -> str:
    return f"{Path(os.path.relpath(path, root)).as_posix()}:{line}"


def _parse(path: Path, root: Path) -> ast.Module:
    try:
        return syntax.parse(path, root)
    except syntax.BadSource as error:
        raise BadExample(str(error)) from None


def _declaration(tree: ast.Module, path: Path, root: Path) -> ast.Assign:
    found = [node for node in tree.body if isinstance(node, ast.Assign) and is_lab(node)]
    if not found:
        raise BadExample(
            f"{_where(path, root, 1)}: no LAB; write LAB = dict(block=..., devices=[...]) "
            "under the docstring"
        )
    if len(found) > 1:
        where = _where(path, root, found[1].lineno)
        raise BadExample(f"{where}: LAB is assigned twice; keep one")
    return found[0]


def _values(lab: ast.Assign, path: Path, root: Path) -> dict[str, Any]:
    call = lab.value
    plain = isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
    if not plain or call.func.id != "dict" or call.args:
        where = _where(path, root, lab.lineno)
        raise BadExample(f"{where}: LAB must be written as dict(key=literal, ...)")
    values = dict(DEFAULTS)
    known = ("block", "devices", *DEFAULTS)
    for keyword in call.keywords:
        where = _where(path, root, keyword.value.lineno)
        if keyword.arg not in known:
            hint = catalogue.nearest(str(keyword.arg), known)
            raise BadExample(f"{where}: LAB has no key {keyword.arg!r}{hint}")
        values[keyword.arg] = _literal(keyword, where)
    return values


def _literal(keyword: ast.keyword, where: str) -> object:
    try:
        return ast.literal_eval(keyword.value)
    except (ValueError, TypeError, RecursionError, MemoryError):
        raise BadExample(
            f"{where}: {keyword.arg} in LAB is computed; write a literal, LAB is read, not run"
        ) from None


def _check_values(values: dict[str, Any], path: Path, where: str) -> None:
    for key, (valid, wanted) in RULES.items():
        if key not in values:
            raise BadExample(f"{where}: LAB lacks {key!r}; give {wanted}")
        if not valid(values[key]):
            raise BadExample(f"{where}: LAB has {key}={values[key]!r}; give {wanted}")
    try:
        catalogue.get(values["block"])
    except catalogue.UnknownBlock as error:
        raise BadExample(f"{where}: {error}") from None
    if path.parent.name != (expected := catalogue.folder(values["block"])):
        raise BadExample(f"{where}: block {values['block']!r} belongs in {FOLDER / expected}")


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _is_names(value: object) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(map(_is_text, value))


def _is_seconds(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 604_800


def _is_raises(value: object) -> bool:
    return value is None or (_is_names(value) and len(value) == 2)  # type: ignore[arg-type]


RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "block": (_is_text, "a block id"),
    "devices": (_is_names, 'a list of devices such as ["cpu", "h200"]'),
    "main": (lambda value: isinstance(value, bool), "True or False"),
    "limit_s": (_is_seconds, "a number of seconds above 0, at most a week"),
    "cache": (lambda value: value in CACHES, '"shared" or "private"'),
    "data": (lambda value: value == [] or _is_names(value), "a list of names"),
    "raises": (_is_raises, 'None or ("module.Type", "a piece of the message")'),
    "heavy": (lambda value: isinstance(value, bool), "True or False"),
}
"""What each key of LAB takes: a test of its value, and the words for it."""


def _check_body(tree: ast.Module, path: Path, root: Path) -> None:
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    if "main" not in functions:
        raise BadExample(f"{_where(path, root, 1)}: no main(); put what the example does there")
    if not any(is_guard(node) for node in tree.body):
        last = tree.body[-1].end_lineno or 1
        raise BadExample(
            f'{_where(path, root, last)}: nothing calls main(); end with if __name__ == "__main__"'
        )


def is_guard(node: ast.stmt) -> bool:
    """Whether a statement is `if __name__ == "__main__":`."""
    match node:
        case ast.If(test=ast.Compare(ast.Name("__name__"), [ast.Eq()], [ast.Constant("__main__")])):
            return True
    return False


def _check_main(examples: list[Example]) -> None:
    mains = [example for example in examples if example.main]
    if len(mains) == 1:
        return
    block = examples[0].block
    if mains:
        raise BadExample(
            f"{mains[1].file}:1: block {block!r} has {len(mains)} examples with main=True "
            f"(also {mains[0].file}); keep one"
        )
    where = f"{examples[0].file}:1"
    raise BadExample(f"{where}: no example of block {block!r} says main=True; mark one")
