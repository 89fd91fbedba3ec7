from __future__ import annotations

import ast
import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fba_lab.example import ROOT
from fba_lab.syntax import canonical, references

SOURCES = {
    "texts": "x = 'a' \"b\" + u'c' + r'\\d' + b'\\xff'.decode() + '\\u2028\\U0001fae8 é'",
    "f-string": "f'a' 'b' f'{x!r:>{w}.{p}} c{{' f'{y=}' '' f'' f'{z:}' f'{q:%H:%M}'",
    "numbers": "(1, -1, 0x10, 1_000, 1e3, 1e999, 1j, ..., True, None, -0.0)",
    "function": "@a.b(c, d=1)\nasync def f(x, /, y: int = 2, *z, w=None, **k) -> 'T':\n"
    "    'doc'\n    async with g() as (a, b), h: await x\n    return {**k, 'a': [*z]}\n",
    "class": "class A(B, metaclass=M):\n    x: int = 1\n    'of x'\n    def f(self): ...\n",
    "flow": "for i, (j, *k) in x:\n    if a < b <= c and not d or e: continue\n"
    "    else: break\nelse: pass\n"
    "while True:\n    try: raise E from e\n    except (A, B) as e: pass\n"
    "    finally: del x[1:2, ::3]\n",
    "match": "match x:\n    case [1, *rest] | {'a': A(b=2), **kw} if y: pass\n"
    "    case None | -1: pass\n",
    "comprehension": "[(x := y, z) for x in a if b for z in c] + list(lambda q, *r: q for _ in s)",
    "import": "from . import a as b\nfrom ..c import *\nimport d.e, f.g as h\nglobal_ = 1\n",
}
# The same on 3.11, 3.12 and 3.13: change one only with the meaning of canonical(), which makes
# every record stale.
PINNED = {
    "texts": "bc8d18eea957",
    "f-string": "ff4b9ed73e88",
    "numbers": "ab1db1339e5e",
    "function": "19bcd7a21e7e",
    "class": "28ab695a288c",
    "flow": "66f83b98029f",
    "match": "606878081f2d",
    "comprehension": "35065fe1aaa2",
    "import": "4bf5b739eb21",
}


def digest(source: str) -> str:
    return hashlib.sha256(canonical(ast.parse(source)).encode()).hexdigest()[:12]


def test_pinned_on_this_python() -> None:
    assert {name: digest(source) for name, source in SOURCES.items()} == PINNED


def other_pythons() -> list[str]:
    """Pythons of the other supported versions, as far as this machine has them."""
    found = []
    for minor in (11, 12, 13):
        places = [shutil.which(f"python3.{minor}")]
        places += sorted(Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python"))
        works = [str(place) for place in places if place and runs(str(place))]
        found += works[:1] if sys.version_info[1] != minor else []
    return found


def runs(python: str) -> bool:
    # A pyenv shim is there for versions that are not in use, and fails.
    return subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("python", other_pythons())
def test_pinned_on_other_pythons(python: str) -> None:
    code = (
        "import ast, hashlib, json, sys\n"
        "from fba_lab.syntax import canonical\n"
        "for name, source in json.load(sys.stdin).items():\n"
        "    print(name, hashlib.sha256(canonical(ast.parse(source)).encode()).hexdigest()[:12])\n"
    )
    done = subprocess.run(
        [python, "-c", code],
        input=json.dumps(SOURCES),
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert dict(line.split() for line in done.stdout.splitlines()) == PINNED


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x = f(1, 2)", "x = f(\n    1,  # why\n    2,\n)"),
        ("def f():\n    return 1", 'def f():\n    "Doc."\n\n    return 1'),
        ("class A:\n    x: int", 'class A:\n    "Doc."\n    x: int\n    "of x"'),
        ("f'a{x}b'", "'a' f'{x}' 'b'"),
        ("x = (1)", "x = 1"),
        ("u'a'", "'a'"),
    ],
)
def test_layout_and_docstrings_do_not_count(one: str, other: str) -> None:
    assert digest(one) == digest(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x = 1", "x = 1.0"),
        ("x = 1", "x = True"),
        ("x = 'a'", "x = b'a'"),
        ("x: int = 1", "x = 1"),
        ("f(a)", "f(*a)"),
        ("{**a}", "{None: a}"),
        ("def f(*, a, b=1): ...", "def f(*, a=1, b): ..."),
        ("x = 'a'\nprint(x)", "x = ''\nprint(x)"),
        ("f'{x}'", "f'{x!s}'"),
        ("def f(): return", "def f(): return None"),
    ],
)
def test_meaning_counts(one: str, other: str) -> None:
    assert digest(one) != digest(other)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def f(a):\n    b = a\n    return b + c.d.e(b.x)", {("c", "d", "e")}),
        ("def f(a=b) -> c: return [x for x in a if y]", {("b",), ("c",), ("y",)}),
        ("def f():\n    xs = [x for x in y]\n    return x", {("y",), ("x",)}),
        ("def f():\n    return [x for x in x]", {("x",)}),
        ("def f():\n    global g\n    g = 1", {("g",)}),
        ("class A(B):\n    x = 1\n    y = x\n    def f(self): return x", {("B",), ("x",)}),
        ("lambda q: q + r", {("r",)}),
        ("def f():\n    try: pass\n    except E as e: print(e)", {("E",), ("print",)}),
        ("def f(x):\n    match x:\n        case [a, *b] | {**c}: return a, b, c, d", {("d",)}),
        ("def f():\n    if (n := g()): return n", {("g",)}),
        ("def f():\n    '''train_gpt.py'''\n    return g()[0].h", {("g",)}),
        ("run('snippets/train_gpt.py')", {("run",), ("<file>", "train_gpt")}),
        ("run('-m', 'snippets.train_gpt')", {("run",), ("<file>", "train_gpt")}),
        ("print('use snippets/train_gpt.py')", {("print",)}),
    ],
)
def test_references(source: str, expected: set[tuple[str, ...]]) -> None:
    assert references(ast.parse(source))[0] == expected
