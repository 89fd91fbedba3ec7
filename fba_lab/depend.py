"""What a result depends on: the code that an example reaches, its data, and the key over them."""

from __future__ import annotations

import ast
import functools
import hashlib
import itertools
import json
from dataclasses import dataclass, field
from pathlib import Path

from fba_lab.example import ROOT, Example, is_guard, is_lab
from fba_lab.measure import MEASURE_VERSION
from fba_lab.syntax import (
    FILE_MARK,
    FUNCTIONS,
    BadSource,
    Chain,
    bound,
    canonical,
    code,
    parse,
    references,
)

PACKAGE = "snippets"
WHOLE = "<module>"
"""Stands for the statements of a module that bind no name and run on import."""

_PLAIN = (ast.Assign, ast.AnnAssign, ast.AugAssign, *FUNCTIONS, ast.ClassDef)
Import = ast.Import | ast.ImportFrom


@dataclass(frozen=True, slots=True)
class Key:
    """The hash that a record is filed under, and the parts it is made from."""

    hash: str
    """SHA-256 over the parts, in hexadecimal."""
    parts: dict[str, str]
    """Hash of each thing depended on, by name: "example", "train_gpt.GPT", "data:sotu"."""


@dataclass(frozen=True, slots=True)
class Module:
    """The top level of one file of snippets/."""

    name: str
    """Dotted, without the package: "train_gpt"."""
    definitions: dict[str, list[ast.stmt]] = field(default_factory=dict)
    """Statements that bind each name."""
    imports: dict[str, list[Chain]] = field(default_factory=dict)
    """What each imported name stands for: (module,) or (module, name), dotted from the top."""
    always: list[ast.stmt] = field(default_factory=list)
    """Statements that count for everyone who imports the file."""


def key(example: Example, root: Path = ROOT) -> Key:
    """Return today's key of an example.

    Raises:
        BadSource: when a file that it reaches, or snippets/data.json, cannot be read.
    """
    try:
        return _key(example, root)
    except RecursionError:
        raise BadSource(f"{example.file}:1: reaches code that is nested too deeply") from None


def _key(example: Example, root: Path) -> Key:
    texts = {f"data:{name}": _entry(name, example, root) for name in example.data}
    texts["example"] = canonical(_body(example, root))
    texts["cache"] = example.cache
    texts["raises"] = json.dumps(example.raises)
    texts["measure"] = str(MEASURE_VERSION)
    return seal(texts | _reached(example, root))


def seal(texts: dict[str, str]) -> Key:
    """Return the key over these texts, each under the name of what it stands for."""
    sums = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in texts.items()}
    parts = {name: sums[name][:16] for name in sorted(sums)}  # tell parts apart; the key keeps 64
    total = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
    return Key(total, parts)


def reaches(example: Example, root: Path = ROOT) -> set[str]:
    """Return the names of the definitions that an example reaches, such as "train_gpt.GPT"."""
    return set(_reached(example, root))


def changes(old: dict[str, str], new: dict[str, str]) -> list[str]:
    """Return one phrase for each part in which two keys differ, in order of name."""
    phrases = []
    for name in sorted(old.keys() | new.keys()):
        if name not in old:
            phrases.append(f"{name} is now reached")
        elif name not in new:
            phrases.append(f"{name} is no longer reached")
        elif old[name] != new[name]:
            phrases.append(f"{name} changed")
    return phrases


def _body(example: Example, root: Path) -> list[ast.stmt]:
    return [node for node in code(parse(example.path, root).body) if not is_lab(node)]


def _entry(name: str, example: Example, root: Path) -> str:
    path = Path(root, PACKAGE, "data.json")
    try:
        # How to make the files does not count, only what is in them.
        entry = json.loads(path.read_text(encoding="utf-8"))[name]["files"]
    except OSError:  # none, or a folder
        raise BadSource(f"{example.file}:1: no {PACKAGE}/data.json to find {name!r} in") from None
    except KeyError:
        raise BadSource(f"{example.file}:1: {PACKAGE}/data.json has no {name!r}; add it") from None
    except TypeError:
        raise BadSource(f"{PACKAGE}/data.json: is no object of objects with files") from None
    except (ValueError, RecursionError) as error:
        raise BadSource(f"{PACKAGE}/data.json: not valid JSON: {error}") from None
    return json.dumps(entry, sort_keys=True)


def _reached(example: Example, root: Path) -> dict[str, str]:
    root = Path(root).resolve()
    here = ".".join(example.path.relative_to(root).with_suffix("").parts)
    reach = Reach(root, here)
    module = Module(here, imports=index(example.path, here, root).imports)
    for statement in _body(example, root):
        reach.follow(statement, module)
    return reach.parts()


class Reach:
    """Walks from one piece of code to every definition that it reaches."""

    def __init__(self, root: Path, here: str) -> None:
        """Reach nothing yet; `here` is the example, whose own code is hashed whole."""
        self.root = root
        self.here = here
        self.seen: dict[tuple[str, str], str] = {}

    def parts(self) -> dict[str, str]:
        """Return the dump of each thing reached, by name without the package."""
        found = {}
        for (module, name), text in self.seen.items():
            if text:
                found[f"{module.removeprefix(PACKAGE).strip('.') or '__init__'}.{name}"] = text
        return found

    def follow(self, node: ast.AST, module: Module) -> None:
        """Reach everything that a piece of code of this module refers to."""
        chains, inner = references(node)
        local: dict[str, list[Chain]] = {}
        for statement in inner:
            _bind(statement, module.name, local)
            self._touch_imported(statement, module.name)
        for chain in chains:
            self._resolve(chain, module, local)

    def _touch_imported(self, statement: Import, here: str) -> None:
        targets: dict[str, list[Chain]] = {}
        _bind(statement, here, targets)
        for target in itertools.chain(*targets.values()):
            found = self._find(".".join(target)) or self._find(target[0])
            if target[-1] == "*":
                self._whole(found)

    def _resolve(self, chain: Chain, module: Module, local: dict[str, list[Chain]]) -> None:
        head, *rest = chain
        if head == FILE_MARK:
            # In the trainer such a string is advice in a message; an example would run the file.
            if module.name.startswith((f"{PACKAGE}.examples", "docs.")):
                self._whole(self._find(f"{PACKAGE}.{rest[0]}"))
            return
        for target in local.get(head) or module.imports.get(head, []):
            self._imported(target, rest, head, module)
        if head not in local and head in module.definitions:
            self._add(module, head, module.definitions[head])

    def _imported(self, target: Chain, rest: list[str], head: str, module: Module) -> None:
        if target[0].split(".")[0] != PACKAGE:
            if module.name != self.here:
                self.seen.setdefault((module.name, head), repr(target))
            return
        path = [*".".join(target).split("."), *rest]
        depth = len(path)
        while depth and not self._find(".".join(path[:depth])):
            depth -= 1
        found = self._find(".".join(path[:depth]))
        if found is None:
            return  # no such file: the run will say so better than we can
        for name in path[depth : depth + 1]:
            if name in found.definitions or name in found.imports:
                self._resolve(tuple(path[depth:]), found, {})
                return
        self._whole(found)

    def _whole(self, module: Module | None) -> None:
        """Reach all of a module: it is used in a way that does not say which part."""
        if module:
            for name in (*module.definitions, *module.imports):
                self._resolve((name,), module, {})

    def _add(self, module: Module, name: str, statements: list[ast.stmt]) -> None:
        if (module.name, name) in self.seen:
            return
        self.seen[module.name, name] = canonical(statements) if statements else ""
        for statement in statements:
            self.follow(statement, module)

    def _find(self, dotted: str) -> Module | None:
        """Return the module of this dotted name, its import-time statements being reached."""
        base = self.root.joinpath(*dotted.split("."))
        for path in (base.with_suffix(".py"), base / "__init__.py"):
            if dotted.split(".")[0] == PACKAGE and path.is_file():
                module = index(path, dotted, self.root)
                if (dotted, WHOLE) not in self.seen:
                    self._add(module, WHOLE, module.always)
                    for target in itertools.chain(*module.imports.values()):
                        self._find(".".join(target)) or self._find(target[0])
                return module
        return None


def index(path: Path, dotted: str, root: Path) -> Module:
    """Return the top level of a file that is imported by this dotted name."""
    return _index(path, dotted, path.stat().st_mtime_ns, root)


@functools.lru_cache(maxsize=256)
def _index(path: Path, dotted: str, mtime_ns: int, root: Path) -> Module:
    module = Module(dotted)
    for node in code(parse(path, root).body):
        if is_guard(node) or isinstance(node, ast.Pass):
            continue
        for inner in ast.walk(node) if not isinstance(node, _PLAIN) else ():
            if isinstance(inner, Import):
                _bind(inner, dotted, module.imports)
        names = bound(node)
        for name in names | _shared(node):
            module.definitions.setdefault(name, []).append(node)
        star = isinstance(node, ast.ImportFrom) and node.names[0].name == "*"
        loose = not names or not isinstance(node, _PLAIN)
        if loose and (star or not isinstance(node, Import)):
            module.always.append(node)
    return module


def _shared(node: ast.stmt) -> set[str]:
    """Return the module's names that a function rebinds: it is part of what they are."""
    return {name for one in ast.walk(node) if isinstance(one, ast.Global) for name in one.names}


def _bind(statement: Import, here: str, into: dict[str, list[Chain]]) -> None:
    """Add what each name of an import statement stands for."""
    if isinstance(statement, ast.Import):
        for alias in statement.names:
            local = alias.asname or alias.name.split(".")[0]
            into.setdefault(local, []).append((alias.name if alias.asname else local,))
        return
    base = statement.module or ""
    if statement.level:
        parents = here.split(".")[: -statement.level]
        base = ".".join([*parents, *filter(None, [statement.module])])
    for alias in statement.names:
        into.setdefault(alias.asname or alias.name, []).append((base, alias.name))
