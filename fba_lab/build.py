"""What one build of the site knows: its root and mode, the fence it is in, and what went wrong.

A problem never stops the page: it is shown where it arose, and the hook logs it as a warning, so
that `mkdocs build --strict` fails on it and a plain build still gives every other result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fba_lab.example import ROOT, Example

MODES = ("replay", "run", "record", "off")


class LabProblem(Exception):
    """Something on a page that its writer must change; `todo` says what to type or edit."""

    def __init__(self, what: str, todo: str = "") -> None:
        """Keep the two halves apart, so that a page can set `todo` as a command."""
        super().__init__(what)
        self.what, self.todo = what, todo


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem with the place it was met."""

    path: str
    line: int
    what: str
    todo: str = ""

    def __str__(self) -> str:
        """Give one line: where, what, and what to do."""
        end = f"; {self.todo}" if self.todo else ""
        return f"{self.path}:{self.line}: {self.what}{end}"


@dataclass(slots=True)
class Build:
    """The state of one build; a new one replaces `current` each time MkDocs starts over."""

    root: Path = ROOT
    mode: str = "replay"
    page: str = "page"
    """Path of the page in work, relative to the root."""
    line: int = 1
    """Line of the fence or macro in work."""
    to_root: str = ""
    """Relative URL from the page in work to the top of the site."""
    write: Callable[[str], Any] = print
    """What the fence in work prints with: markdown-exec captures only the fence's own `print`."""
    declared: set[int] = field(default_factory=set)
    """Lines of the fences that the page in work asks to have evaluated."""
    evaluated: set[int] = field(default_factory=set)
    finished: set[int] = field(default_factory=set)
    sourced: set[str] = field(default_factory=set)
    """Examples whose source the page in work shows: an id may occur only once on a page."""
    problems: list[Problem] = field(default_factory=list)
    logged: int = 0
    """How many of the problems the hook has logged."""
    examples: dict[str, Example] = field(default_factory=dict)
    """All examples, once they were asked for: reading them again for each fence takes its time."""
    results: dict[tuple[str, str], Any] = field(default_factory=dict)
    """What `results.one` found, by example and device."""
    answered: set[tuple[str, str]] = field(default_factory=set)
    """Pairs of example and device whose state some page has already answered for."""
    pages: dict[str, str] = field(default_factory=dict)
    """URL of each page by its path under docs/."""
    sources: dict[str, str] = field(default_factory=dict)
    """URL of the page that shows a source file, by the file's path under the root."""

    def enter_page(self, path: str, to_root: str) -> None:
        """Start on another page."""
        self.page, self.to_root, self.line = path, to_root, 1
        self.declared, self.evaluated, self.finished = set(), set(), set()
        self.sourced = set()

    def report(self, what: str, todo: str = "", *, path: str = "", line: int = 0) -> Problem:
        """Note a problem, at the fence in work unless a place is given."""
        problem = Problem(path or self.page, line or self.line, what, todo)
        if problem not in self.problems:
            self.problems.append(problem)
        return problem


current = Build()
recorded: set[Path] = set()
"""Roots that this process has recorded as a whole."""


def start(root: Path, mode: str) -> Build:
    """Begin a build and return its state."""
    global current
    current = Build(root=root, mode=mode)
    return current
