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
from typing import Any

from fba_lab.catalogue import nearest

OPEN = re.compile(r"^(?P<indent>[ \t>]*)(?P<marks>`{3,}|~{3,})(?P<info>[^\n]*)$")
OPTION = re.compile(r"""([\w-]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s}]+))""")
TRUE = {"true", "yes", "on", "1"}
# What a fence of ours may say; "source" and "result" would put the call itself on the page.
OPTIONS = ("exec", "html", "id")
# Only a fence of ours has a line like these; code that imports `measure` may be shown plainly.
OURS = re.compile(
    r"^[ \t>]*(?:from fba_lab import[^\n]*\bpages\b|from fba_lab\.pages\b|import fba_lab\b"
    r"|pages\.\w+[ \t]*\()"
)
SHAPE = "a fence holds `from fba_lab import pages` and one call of it, nothing else"


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
    unclosed: bool = False
    """Whether it is a line that opens a fence which nothing closes."""

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
        if found is None or "`" in found["info"]:
            prose.append(lines[at])
            at += 1
            continue
        if prose:
            yield Piece(first_line + at - len(prose), prose)
            prose = []
        if end is None:
            yield Piece(first_line + at, [lines[at]], unclosed=True)
            at += 1
            continue
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


def overlooked(piece: Piece) -> tuple[int, str] | None:
    """Say (line, why) a piece that is not evaluated looks as if it should be; None when it doesn't.

    Whatever is mistyped about a fence, Markdown shows it as code or prose without a word.
    """
    if piece.unclosed:
        return piece.line, "the fence is never closed; its last line holds its marks and no more"
    if not piece.fenced:
        at = next((at for at, line in enumerate(piece.lines) if OURS.match(line)), None)
        return None if at is None else (piece.line + at, "a call of pages outside of any fence")
    marks = OPEN.match(piece.lines[0])
    inside = piece.lines[1:-1]
    for at, line in enumerate(inside, piece.line + 1):
        found = OPEN.match(line)
        if marks and found and found["marks"].startswith(marks["marks"]):
            return at, f"the fence of line {piece.line} is still open here; close or lengthen it"
    if piece.language in ("markdown", "md"):  # shows how a fence is written
        return None
    if re.search(r"\bexec\b", piece.info, re.IGNORECASE) or any(map(OURS.match, inside)):
        return piece.line, 'the fence is shown, not evaluated; begin it with ```python exec="true"'
    return None


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
    except (ValueError, RecursionError, MemoryError) as error:
        return f"the fence does not parse: {error}"
    match body:
        case [ast.ImportFrom("fba_lab", [ast.alias("pages", None)], 0), *rest]:
            body = rest
    match body:
        case [ast.Expr(ast.Call(ast.Attribute(ast.Name("pages"), name)) as call)]:
            if name not in calls:
                return f"unknown function pages.{name}" + nearest(name, calls)
            try:
                literals(call)
            except ValueError as error:
                return str(error)
            return None
    return SHAPE


def literals(call: ast.Call) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of a call, which must be written out: nothing is ever run for them.

    Raises:
        ValueError: when one of them is not a literal.
    """
    for keyword in call.keywords:
        if keyword.arg is None:
            raise ValueError("arguments are written out, not unpacked")
    args = [_literal(one) for one in call.args]
    return args, {str(one.arg): _literal(one.value) for one in call.keywords}


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        raise ValueError(f"arguments are literals, not `{ast.unparse(node)[:80]}`") from None


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
