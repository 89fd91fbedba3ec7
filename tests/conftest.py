"""A small repository of real files for the tests of the lab: a trainer, examples, records."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from fba_lab import suite
from fba_lab.example import Example, read

TRAINER = '''\
"""A trainer in small."""

import math
from dataclasses import dataclass

SIZE = 3
STEPS = 2


@dataclass
class Config:
    """Settings."""

    width: int = SIZE


def scale(x: float) -> float:
    """Twice the size."""
    return 2 * x * SIZE


def train(x: float) -> float:
    # a comment
    for _ in range(STEPS):
        x = scale(x)
    return x


def fails(x: float) -> float:
    raise ValueError(f"cannot train on {x}")


def unused() -> float:
    return math.pi


if __name__ == "__main__":
    print(train(1.0))
'''

EXAMPLE = '''\
"""{title}

What it shows.
"""

from fba_lab import measure
from snippets import train_gpt

LAB = dict({lab})


def main() -> None:
{body}


if __name__ == "__main__":
    main()
'''


def pytest_addoption(parser: pytest.Parser) -> None:
    words = "with -m gpu: record how the tests ended, for `python -m fba_lab check`"
    parser.addoption("--record", action="store_true", help=words)


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--record"):
        config.pluginmanager.register(suite.Plugin())


class Repository:
    """A root folder with snippets/, to which a test adds what it needs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.examples = root / "snippets" / "examples"
        (self.examples / "model_compile").mkdir(parents=True)
        self.write("__init__.py", '"""Code that the site shows."""\n')
        self.write("train_gpt.py", TRAINER)

    def write(self, name: str, text: str) -> Path:
        """Write a file below snippets/."""
        path = self.root / "snippets" / name
        path.write_text(text, encoding="utf-8")
        return path

    def edit(self, name: str, old: str, new: str) -> None:
        """Replace a piece of a file below snippets/ that must be there."""
        text = (self.root / "snippets" / name).read_text(encoding="utf-8")
        assert old in text
        self.write(name, text.replace(old, new))

    def source(self, body: str = "print(train_gpt.train(1.0))", **lab: object) -> str:
        """Return the text of an example with this body."""
        values = {"block": "model-compile", "devices": ["cpu"], "limit_s": 20} | lab
        written = ", ".join(f"{name}={value!r}" for name, value in values.items())
        lines = textwrap.indent(textwrap.dedent(body).strip(), "    ")
        return EXAMPLE.format(title="A title", lab=written, body=lines)

    def example(
        self, name: str, body: str = "print(train_gpt.train(1.0))", **lab: object
    ) -> Example:
        """Write an example of model-compile and return it as discover would."""
        path = self.examples / "model_compile" / f"{name}.py"
        path.write_text(self.source(body, **lab), encoding="utf-8")
        return read(path, self.root)


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repo")


@pytest.fixture
def lines_of() -> Callable[[Path, str], list[int]]:
    """Returns a function: the numbers of the lines of a file that hold a text."""

    def find(path: Path, text: str) -> list[int]:
        lines = path.read_text(encoding="utf-8").splitlines()
        return [number for number, line in enumerate(lines, 1) if text in line]

    return find
