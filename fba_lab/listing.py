"""The code of a block on its page: whole, with its true line numbers, and notes on single lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from fba_lab import build, catalogue, frame, locate, render, terminal, view
from fba_lab.build import LabProblem
from fba_lab.frame import TRAINER
from fba_lab.syntax import source_lines


def block(entry: catalogue.Block, notes: Mapping[str, str]) -> str:
    """Return the code of a block, and its notes by a piece of code that one line of it has.

    Raises:
        LabProblem: when the trainer lacks the block, or a note fits no line or several.
    """
    root = build.current.root
    path = root / TRAINER
    found = view.located(path)[entry.id]
    if not found.spans:
        raise LabProblem(f"block '{entry.id}' is {found.status} in {TRAINER}", found.note)
    lines = source_lines(path.read_text(encoding="utf-8"))
    html = render.highlight("\n".join(lines) + "\n")
    marks = {_noted_line(text, lines, found.spans): at for at, text in enumerate(notes, 1)}
    parts = []
    for span in found.spans:
        words = f"{TRAINER}, {terminal.lines_words(span)}"
        page = build.current.sources.get(TRAINER.as_posix())
        link = frame.url(page, f"#{TRAINER.stem}-{span.start}") if page else f"#code-{span.start}"
        parts.append(render.tag("p", render.tag("a", words, href=link), class_="lab-path"))
        code = html[span.start - 1 : span.end]
        parts.append(render.code(code, start=span.start, anchor="code", label=words, marks=marks))
    return render.tag("div", *parts, render.notes(notes, marks, "code"), class_="lab-block")


def _noted_line(text: str, lines: Sequence[str], spans: Iterable[locate.Span]) -> int:
    inside = [at for span in spans for at in range(span.start, span.end + 1)]
    matches = [at for at in inside if text in lines[at - 1]]
    if len(matches) != 1:
        what = f"the note on `{text}` fits {len(matches)} lines of the block, not one"
        raise LabProblem(what, "name a piece of code that stands on one line")
    return matches[0]
