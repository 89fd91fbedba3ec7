"""Runs the cells of a notebook in this process, as Jupyter would, and keeps what each one gave.

The standard library is enough for it, so a notebook can be recorded where Jupyter isn't installed.
"""

from __future__ import annotations

import ast
import io
import json
import linecache
import sys
import types
from pathlib import Path
from typing import Any, TextIO

from fba_lab import measure, notebook

OUTPUTS = "outputs.json"


class Stream(io.TextIOBase):
    """A stdout or stderr that notes what is written for the cell in work, and passes it on.

    It stays the same through all cells: a log handler keeps the stream that it was made with.
    """

    def __init__(self, name: str, outputs: list[dict[str, Any]], below: TextIO) -> None:
        """Write to `below`, and to the last entry of `outputs` if it is of this name."""
        self.stream, self.outputs, self.below, self.noted = name, outputs, below, 0

    def write(self, text: str) -> int:
        """Note a piece of text; what one stream writes in a row becomes one output."""
        written = self.below.write(text)
        last = self.outputs[-1] if self.outputs else {}
        self.noted += len(text)
        if self.noted > 2 * measure.ARTEFACT_LIMIT:
            pass  # nothing so long is kept; a flood must not fill the memory
        elif last.get("name") == self.stream:
            last["text"].append(text)  # pieces: adding to a text copies all of it
        elif text:
            entry = {"output_type": "stream", "name": self.stream, "text": [text]}
            self.outputs.append(entry)
        return written

    def flush(self) -> None:
        """Pass on what was written so far."""
        self.below.flush()

    def fileno(self) -> int:
        """Return the descriptor of the stream below."""
        return self.below.fileno()

    def writable(self) -> bool:
        """Say yes."""
        return True


def run(file: str) -> None:
    """Run every code cell of a notebook and report their outputs as an artefact.

    An exception ends the run, as it would end a run of the whole notebook in Jupyter.
    """
    cells = notebook.code_cells(notebook.load(Path(file)))
    module = types.ModuleType("__main__")
    ours = sys.modules["__main__"]
    outputs: list[dict[str, Any]] = []
    streams = sys.stdout, sys.stderr
    kept = []
    target = Path(OUTPUTS).absolute()  # before a cell changes the working folder
    try:
        sys.modules["__main__"] = module
        sys.stdout = Stream("stdout", outputs, streams[0])
        sys.stderr = Stream("stderr", outputs, streams[1])
        for number, cell in enumerate(cells, 1):
            name = f"{Path(file).name}[{cell['id']}]"
            outputs += _run_cell(notebook.source(cell), name, module, number)
            kept.append({"id": cell["id"], "outputs": _as_lines(outputs)})
            outputs.clear()
    finally:
        sys.stdout, sys.stderr = streams
        sys.modules["__main__"] = ours
    target.write_text(json.dumps(kept, indent=1, ensure_ascii=False), encoding="utf-8")
    measure.artefact(target, "json")


def _run_cell(code: str, name: str, module: types.ModuleType, number: int) -> list[dict[str, Any]]:
    """Run one cell; return the value of an expression at its end as an output, if there is one."""
    # So that tracebacks, inspect and Dynamo find the lines of a file that there isn't.
    linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
    tree = ast.parse(code, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), module.__dict__)
    if last is None:
        return []
    value = eval(compile(ast.Expression(last.value), name, "eval"), module.__dict__)  # type: ignore[attr-defined]
    if value is None:
        return []
    shown = {"output_type": "execute_result", "execution_count": number, "metadata": {}}
    return [shown | {"data": {"text/plain": repr(value)}}]


def _as_lines(outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the outputs with their text as lists of lines, as the format has them on disk."""
    found = []
    for one in outputs:
        one = dict(one)
        if "text" in one:
            one["text"] = "".join(one["text"]).splitlines(keepends=True)
        else:
            text = one["data"]["text/plain"].splitlines(keepends=True)
            one["data"] = {"text/plain": text}
        found.append(one)
    return found
