"""What prose may not say by itself: typed numbers, and comparisons that no claim backs.

A number on a page comes from `{{ metric(...) }}` or `{{ code(...) }}`, a comparison stands in one
paragraph with a `{{ claim(...) }}`. Not prose are code, links, macros, a belief quoted in “…” in a
belief box, and the *title* of a work under Credits. A question states nothing. A paragraph with
`<!-- not measured: why -->` at the end of a line is let pass, and counted.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fba_lab import fences, notebook
from fba_lab.example import BadExample
from fba_lab.prose import MACRO

EXCEPTION = re.compile(r"<!--\s*not measured:\s*\S[^\n]*?-->")
BELIEF = re.compile(r"^[ \t]*(?:!!!|\?\?\?\+?)[ \t]+belief\b")
ALONE = re.compile(r"^[ \t]*(?:!!!|\?\?\?\+?|===\+?!?|#{1,6})[ \t]")
"""A heading, and the line that opens a box: each a paragraph of its own."""
START = re.compile(r"^[ \t>]*(?:[-*+]|\d+[.)])[ \t]")
"""A list item, where a new paragraph begins without an empty line."""

HIDDEN, NUMBER, CLAIM, EXCEPTED = "\x00", "\x01", "\x02", "\x03"
"""Stand for what isn't prose, for a macro that prints a number, a claim, and an exception."""
NOT_PROSE = re.compile(
    r"<!--.*?-->|(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)|\]\([^)\n]*\)|<?https?://[^\s>)]+>?"
    r"|</?[a-z][^>\n]*>|\{[:#.][^}\n]*\}",
    re.DOTALL | re.IGNORECASE,
)
QUOTE = re.compile(r"“[^”]*”")
TITLE = re.compile(r"(?<!\*)\*(?![*\s])[^*]+\*(?!\*)")

UNITS = (
    r"m(?:illi)?s(?:ec(?:ond)?s?)?|[µμu]s|n(?:ano)?s|s|sec|seconds?|microseconds?|nanoseconds?"
    r"|min|minutes?|h|hrs?|hours?|[kKMGT]i?B|B|bytes?|(?:kilo|mega|giga)bytes?|[KMGTP]?FLOPS?"
    r"|[kMG]Hz|k?W|tokens?|steps?|layers?|heads?|param(?:eter)?s|rows?|columns?|documents?|graphs?"
    r"|kernels?|nodes?|calls?|compilations?|iterations?|seeds?|lines|operations?|percent|per cent"
    r"|million|billion|times|fold"
)
SPELLED = r"(?:milli|micro|nano)?seconds?|minutes?|hours?|(?:kilo|mega|giga)?bytes?|tokens?|times"
WORDS = (
    r"two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty|thirty|forty"
    r"|fifty|sixty|ninety|hundred|thousand"
)
TYPED = re.compile(
    rf"(?<![\w.,/-])\d(?:[\d.,]*\d)?[ \u00a0\n-]?(?:(?:{UNITS})(?:/s)?\b|[x×](?!\w)|×|%)"
    rf"|(?i:\b(?:{WORDS})[ \n-]?(?:{SPELLED}|percent|per cent|fold)\b)"
    r"|(?<![\w.,:/-])\d+\.\d+(?![\w.]*\w)"
)
NAMED = re.compile(
    r"\b(?:torch|pytorch|python|cuda|triton|step|stage|layer|seed|line|version)\s"
    r"(?:[\d.]+,?\s(?:and|or|to)\s)?$",
    re.IGNORECASE,
)
"""Before a number that names a thing and measures none: "torch 2.13", "step 0"."""
STRONG = re.compile(
    r"\b(?:fast(?:er|est)|slow(?:er|est|s)|quick(?:er|est)|cheap(?:er|est)|speed-?ups?|sped up"
    r"|speeds? up|outperform(?:s|ed)?|(?:twice|thrice|half)\s+(?:as|the|that|its)"
    r"|halves|halved|doubles|doubled|triples|tripled|(?:takes?|took)\s+longer"
    r"|orders?\s+of\s+magnitude|as\s+(?:fast|slow|quick|cheap|expensive)\b)",
    re.IGNORECASE,
)
WEAK = re.compile(
    r"\b(?:more|less|fewer|higher|lower|larger|smaller|bigger|longer|shorter|greater|better|worse"
    r"|twice|half|(?:a|one|two|three)[ -](?:third|quarter|fifth|tenth|hundredth)s?"
    r"|falls?|fell|rises?|rose|drops?|dropped|grows?|grew|shrinks?|shrank|saves|saved|reduces?"
    r"|reduced|improves?|improved|beats?)\b",
    re.IGNORECASE,
)
IDLE = re.compile(r"\b(?:no longer|any longer|no more|once more|one more|more or less)\b", re.I)
QUANTITY = re.compile(
    r"\b(?:(?<!\ba )(?<!first )(?<!same )(?<!each )(?<!every )(?<!\bat )(?<!this )times?|memory"
    r"|loss(?:es)?|costs?|speed|throughput|bandwidth|latency|(?:milli|micro)?seconds|bytes"
    r"|accuracy|tokens per second)\b",
    re.IGNORECASE,
)
NEAR = 5
"""Words between a comparison and the quantity that it is about."""
SENTENCE = re.compile(r"(?<=[.!?;])[\s\"”)]+")


@dataclass(frozen=True, slots=True)
class Finding:
    """One place where prose says what it has not looked up."""

    line: int
    word: str
    todo: str
    cell: int | None = None
    """Number of the cell, from 1, in a notebook; the line is then one of the cell."""

    def show(self, file: str) -> str:
        """Return "file:line: word; what to do"."""
        place = f"{file}:{self.line}" if self.cell is None else f"{file}: cell {self.cell}"
        return f"{place}: “{self.word}” {self.todo}"


TYPED_TODO = "is a typed number; print it by {{ metric(...) }} or {{ code(...) }}"
UNBACKED = (
    "compares without a {{ claim(...) }} in its paragraph; add one, say it otherwise, or end the "
    "line with <!-- not measured: why -->"
)


def in_file(path: Path) -> list[Finding]:
    """Return what a page, or the Markdown of a notebook, says without having looked it up."""
    if path.suffix != notebook.SUFFIX:
        return findings(path.read_text(encoding="utf-8"))
    found = []
    for number, cell in enumerate(notebook.load(path, Path.cwd())["cells"], 1):
        if cell["cell_type"] == "markdown":
            for one in findings(notebook.source(cell)):
                found.append(Finding(one.line, one.word, one.todo, number))
    return found


def pages(root: Path) -> list[Path]:
    """Return the pages and notebooks under docs/, in order."""
    docs = root / "docs"
    return sorted([*docs.rglob("*.md"), *docs.rglob("*.ipynb")])


def report(files: list[Path]) -> list[str]:
    """Return one line for each finding in these files, and a last one that counts.

    Raises:
        ValueError: when a file cannot be read; names it.
    """
    lines, excepted = [], 0
    for file in files:
        try:
            lines += [one.show(os.path.relpath(file)) for one in in_file(file)]
            excepted += len(EXCEPTION.findall(file.read_text(encoding="utf-8")))
        except BadExample:
            raise
        except ValueError as error:
            raise ValueError(f"{file}: cannot be read as a page ({error})") from None
    count = f"{len(files)} pages, {len(lines)} findings, {excepted} exceptions"
    return [*lines, count]


def findings(markdown: str) -> list[Finding]:
    """Return what a page says without having looked it up, in order of its lines."""
    found = []
    for line, paragraph in paragraphs(markdown):
        found += _judge(line, paragraph)
    for piece in fences.split(markdown):
        if piece.evaluated:
            found += _in_fence(piece)
    return sorted(found, key=lambda one: one.line)


def paragraphs(markdown: str) -> Iterator[tuple[int, str]]:
    """Yield (first line, text) of each paragraph, list item, heading and title of a box.

    What isn't prose is blanked out; claims, exceptions and numbers of macros leave a mark.
    """
    credit = False
    for piece in fences.split(markdown):
        for first, lines, belief in _grouped(piece) if not piece.fenced else ():
            if lines[0].startswith("#"):
                credit = "credits" in lines[0].lower()
            yield first, _blank("\n".join(lines), [QUOTE] * belief + [TITLE] * credit)


def _grouped(piece: fences.Piece) -> Iterator[tuple[int, list[str], bool]]:
    """Yield (first line, lines, whether they are in a belief box) of each paragraph."""
    kept: list[str] = []
    belief, depth = False, 0
    for at, line in enumerate([*piece.lines, ""], piece.line):
        indent = len(line) - len(line.lstrip())
        ends = not line.strip() or START.match(line) or ALONE.match(line)
        ends = ends or (kept and ALONE.match(kept[-1]))
        if ends and kept:
            yield at - len(kept), kept, belief
            kept = []
        if BELIEF.match(line):
            belief, depth = True, indent
        elif line.strip() and indent <= depth:
            belief = False
        if line.strip():
            kept.append(line)


def _blank(text: str, quotes: list[re.Pattern[str]]) -> str:
    """Hide what isn't prose, so that everything else keeps its place."""
    text = MACRO.sub(_mark, text)
    text = EXCEPTION.sub(lambda found: _fill(found, EXCEPTED), text)
    for pattern in [NOT_PROSE, *quotes]:
        text = pattern.sub(lambda found: _fill(found, HIDDEN), text)
    return text


def _mark(found: re.Match[str]) -> str:
    name = found[1].strip().partition("(")[0]
    return _fill(found, {"claim": CLAIM, "metric": NUMBER}.get(name, HIDDEN))


def _fill(found: re.Match[str], mark: str) -> str:
    return re.sub(r"[^\n]", mark, found[0])


def _judge(line: int, text: str) -> Iterator[Finding]:
    if EXCEPTED in text:
        return
    for found in _typed(text):
        yield _finding(line, text, found.start(), found[0], TYPED_TODO)
    start = 0
    for sentence in SENTENCE.split(text) if CLAIM not in text else ():
        start = text.index(sentence, start)
        if not sentence.rstrip('"” \n').endswith("?"):
            for at, word in _comparisons(sentence):
                yield _finding(line, text, start + at, word, UNBACKED)
        start += len(sentence)


def _typed(text: str) -> Iterator[re.Match[str]]:
    for found in TYPED.finditer(text):
        if not NAMED.search(text, max(0, found.start() - 24), found.start()):
            yield found


def _finding(line: int, text: str, at: int, word: str, todo: str) -> Finding:
    return Finding(line + text.count("\n", 0, at), " ".join(word.split()), todo)


def _comparisons(sentence: str) -> Iterator[tuple[int, str]]:
    done = {at for one in IDLE.finditer(sentence) for at in range(*one.span())}
    for found in STRONG.finditer(sentence):
        done |= set(range(*found.span()))
        yield found.start(), found[0]
    for found in WEAK.finditer(sentence):
        if found.start() not in done and (NUMBER in sentence or _near(sentence, found)):
            yield found.start(), found[0]


def _near(sentence: str, found: re.Match[str]) -> bool:
    """Whether a quantity that can be measured is named close to a word."""
    # With a limit, or a page without a full stop would take minutes.
    before = sentence[: found.start()].rsplit(None, NEAR)[-NEAR:]
    after = sentence[found.end() :].split(None, NEAR)[:NEAR]
    return any(QUANTITY.search(" ".join(words)) for words in (before, after))


def _in_fence(piece: fences.Piece) -> Iterator[Finding]:
    """Yield the typed numbers of the titles, captions and notes that a fence hands to a page."""
    try:
        tree = ast.parse(piece.body)
    except (SyntaxError, ValueError):
        return  # the build refuses it, with its line
    keys = {id(key) for node in ast.walk(tree) if isinstance(node, ast.Dict) for key in node.keys}
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) and id(node) not in keys else None
        for found in _typed(text) if isinstance(text, str) and " " in text else ():
            yield Finding(piece.line + node.lineno, found[0], TYPED_TODO)
