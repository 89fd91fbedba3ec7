"""Markdown as the site sees it: prose, plain code, and fences that are evaluated.

markdown-exec drops a fence with a mistyped option without a word, and a fence that raises or exits
takes its neighbours along. So the fences are read here first: what is not one call of
`fba_lab.pages` is refused with its line, and the rest reports when it starts and when it is done.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from fba_lab.catalogue import nearest

OPEN = re.compile(r"^(?P<indent>[ \t>]*)(?P<marks>`{3,}|~{3,})(?P<info>[^\n]*)$")
OPTION = re.compile(r"""([\w-]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s}]+))""")
TRUE = {"true", "yes", "on", "1"}
# What a fence of ours may say; "source" and "result" would put the call itself on the page.
OPTIONS = ("exec", "html", "id")


@dataclass(slots=True)
class Piece:
    """A run of lines of a page that is either prose or one whole fence."""

    line: int
    """Number of its first line in the file, 1-based."""
    lines: list[str]
    fenced: bool = False
    info: str = ""
    indent: str = ""
    options: dict[str, str] = field(default_factory=dict)

    @property
    def evaluated(self) -> bool:
        """Whether markdown-exec is asked to evaluate it."""
        return self.fenced and self.options.get("exec", "").lower() in TRUE

    @property
    def language(self) -> str:
        """The language it names."""
        words = self.info.replace("{", " ").replace("}", " ").split()
        return words[0].lstrip(".") if words and "=" not in words[0] else ""

    @property
    def body(self) -> str:
        """Its code without the fence's own lines and indent."""
        return "\n".join(line.removeprefix(self.indent) for line in self.lines[1:-1])


def split(markdown: str, first_line: int = 1) -> Iterator[Piece]:
    """Yield a page's pieces in order; joined by line feeds they give back the page."""
    prose: list[str] = []
    lines = markdown.split("\n")
    at = 0
    while at < len(lines):
        found = OPEN.match(lines[at])
        end = _closing(lines, at, found["marks"]) if found else None
        if found is None or end is None or "`" in found["info"]:
            prose.append(lines[at])
            at += 1
            continue
        if prose:
            yield Piece(first_line + at - len(prose), prose)
            prose = []
        info = found["info"].strip()
        options = {m[1]: m[2] or m[3] or m[4] or "" for m in OPTION.finditer(info)}
        piece = Piece(first_line + at, lines[at : end + 1], True, info, found["indent"], options)
        yield piece
        at = end + 1
    if prose:
        yield Piece(first_line + at - len(prose), prose)


def _closing(lines: list[str], start: int, marks: str) -> int | None:
    """Return the index of the line that closes a fence, or None when nothing does."""
    close = re.compile(rf"^[ \t>]*{re.escape(marks[0])}{{{len(marks)},}}[ \t]*$")
    return next((at for at in range(start + 1, len(lines)) if close.match(lines[at])), None)


def refuse(piece: Piece, calls: list[str]) -> str | None:
    """Say why an evaluated fence may not be evaluated, or None when it may.

    Args:
        piece: the fence.
        calls: names of the functions of `fba_lab.pages` that a fence may call.
    """
    if piece.language not in ("python", "py"):
        return f"a {piece.language or 'nameless'} fence is not evaluated here, only python ones are"
    for name in piece.options:
        if name not in OPTIONS:
            return f"unknown fence option '{name}'" + nearest(name, OPTIONS)
    try:
        body = ast.parse(piece.body).body
    except SyntaxError as error:
        return f"the fence does not parse: {error.msg}"
    calls_made = [node for node in body if not isinstance(node, ast.ImportFrom)]
    match calls_made:
        case [ast.Expr(ast.Call(ast.Attribute(ast.Name("pages"), name)))]:
            known = name in calls
            return None if known else f"unknown function pages.{name}" + nearest(name, calls)
    return "a fence holds `from fba_lab import pages` and one call of it, nothing else"


def instrument(piece: Piece) -> str:
    """Rewrite a fence so that it says where it is, prints HTML, and reports its end."""
    first, last = piece.lines[0], piece.lines[-1]
    if "html" not in piece.options:
        # Without it what a run printed would be read as Markdown again.
        first = re.sub(r"(exec\s*=)", r'html="1" \1', first, count=1)
    before = ["from fba_lab import pages", f"pages.enter({piece.line}, print)"]
    after = [f"pages.leave({piece.line})"]
    body = piece.lines[1:-1]
    wrapped = [piece.indent + line for line in before], [piece.indent + line for line in after]
    return "\n".join([first, *wrapped[0], *body, *wrapped[1], last])
