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
        self.stream, self.outputs, self.below = name, outputs, below

    def write(self, text: str) -> int:
        """Note a piece of text; what one stream writes in a row becomes one output."""
        last = self.outputs[-1] if self.outputs else {}
        if last.get("name") == self.stream:
            last["text"] += text
        elif text:
            entry = {"output_type": "stream", "name": self.stream, "text": text}
            self.outputs.append(entry)
        return self.below.write(text)

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
    try:
        sys.modules["__main__"] = module
        sys.stdout = Stream("stdout", outputs, streams[0])
        sys.stderr = Stream("stderr", outputs, streams[1])
        for number, cell in enumerate(cells, 1):
            _run_cell(notebook.source(cell), f"{Path(file).name}[{cell['id']}]", module, number)
            kept.append({"id": cell["id"], "outputs": _as_lines(outputs)})
            outputs.clear()
    finally:
        sys.stdout, sys.stderr = streams
        sys.modules["__main__"] = ours
    Path(OUTPUTS).write_text(json.dumps(kept, indent=1, ensure_ascii=False), encoding="utf-8")
    measure.artefact(OUTPUTS, "json")


def _run_cell(code: str, name: str, module: types.ModuleType, number: int) -> None:
    """Run one cell; the value of an expression at its end becomes an output."""
    # So that tracebacks, inspect and Dynamo find the lines of a file that there isn't.
    linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
    tree = ast.parse(code, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), module.__dict__)
    if last is None:
        return
    value = eval(compile(ast.Expression(last.value), name, "eval"), module.__dict__)  # type: ignore[attr-defined]
    if value is not None:
        sys.stdout.outputs.append(  # type: ignore[attr-defined]
            {
                "output_type": "execute_result",
                "execution_count": number,
                "metadata": {},
                "data": {"text/plain": repr(value)},
            }
        )


def _as_lines(outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the outputs with their text as lists of lines, as the format has them on disk."""
    found = []
    for one in outputs:
        one = dict(one)
        if "text" in one:
            one["text"] = one["text"].splitlines(keepends=True)
        else:
            text = one["data"]["text/plain"].splitlines(keepends=True)
            one["data"] = {"text/plain": text}
        found.append(one)
    return found
