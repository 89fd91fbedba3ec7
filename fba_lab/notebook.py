"""The notebooks: which there are, what each declares, and if its outputs are those recorded.

A notebook is run cell by cell like an example (see cells) and is known by an id such as
"notebooks/recompiles". What its cells gave is an artefact of its record, and stands once more in
the notebook itself, where Jupyter and the site show it.
"""

from __future__ import annotations

import ast
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fba_lab import example, syntax
from fba_lab.example import ROOT, BadExample, Example
from fba_lab.files import replace

FOLDER = Path("docs", "notebooks")
GROUP = "notebooks"
SUFFIX = ".ipynb"
DEFAULTS: dict[str, Any] = {"devices": ["cpu"], "limit_s": 240, "data": []}
"""What metadata.lab of a notebook may set."""
ID = re.compile(r"[\w-]{1,64}", re.ASCII)
"""What the format takes as the id of a cell."""
KERNEL = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}

Cell = dict[str, Any]


def everything(root: Path = ROOT) -> dict[str, Example]:
    """Return every example and every notebook by id, in order of id."""
    return dict(sorted({**example.discover(root), **discover(root)}.items()))


def discover(root: Path = ROOT) -> dict[str, Example]:
    """Return every notebook by id.

    Raises:
        BadExample: at the first that breaks a rule, as "path:line: what; what to do".
    """
    root = Path(root).resolve()
    found = [read(path, root) for path in sorted((root / FOLDER).glob(f"*{SUFFIX}"))]
    return {one.id: one for one in found}


def is_notebook(one: Example) -> bool:
    """Whether an example is a notebook."""
    return one.path.suffix == SUFFIX


def read(path: Path, root: Path = ROOT) -> Example:
    """Return what one notebook declares."""
    where = f"{Path(os.path.relpath(path, root)).as_posix()}:1"
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", path.stem):
        raise BadExample(f"{where}: is no name for a notebook; use a-z, digits and single dashes")
    notebook = load(path, root)
    values = _declared(notebook["metadata"].get("lab", {}), where)
    _check_cells(notebook, where)
    title, doc = _words(notebook)
    if not title:
        raise BadExample(f"{where}: no title; begin with a Markdown cell whose first line is # ...")
    return Example(
        id=f"{GROUP}/{path.stem}",
        block=GROUP,
        name=path.stem,
        path=path,
        root=root,
        title=title,
        doc=doc,
        devices=tuple(values["devices"]),
        main=False,
        limit_s=values["limit_s"],
        cache="shared",
        data=tuple(values["data"]),
        raises=None,
        heavy=False,
    )


def load(path: Path, root: Path = ROOT) -> dict[str, Any]:
    """Return the JSON of a notebook.

    Raises:
        BadExample: when it cannot be read or isn't a notebook of today's format.
    """
    where = f"{Path(os.path.relpath(path, root)).as_posix()}:1"
    try:
        notebook = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise BadExample(f"{where}: cannot be read as a notebook: {error}") from None
    whole = isinstance(notebook, dict) and isinstance(notebook.get("metadata"), dict)
    if not whole or not isinstance(notebook.get("cells"), list):
        raise BadExample(f"{where}: is no notebook; it lacks cells or metadata")
    if notebook.get("nbformat") != 4:
        raise BadExample(f"{where}: nbformat is {notebook.get('nbformat')!r}; save it as 4.5")
    for number, cell in enumerate(notebook["cells"], 1):
        if wrong := _misfit(cell):
            raise BadExample(f"{where}: cell {number} {wrong}")
    return notebook


def _misfit(cell: Any) -> str | None:
    """Return what a cell lacks for the format, or None."""
    if not isinstance(cell, dict) or cell.get("cell_type") not in ("code", "markdown", "raw"):
        return "is neither code nor Markdown nor raw; save it as format 4.5"
    text = cell.get("source")
    lines = [text] if isinstance(text, str) else text
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        return "has no source of text; save it as format 4.5"
    try:
        "".join(lines).encode()
    except UnicodeEncodeError:
        return "holds half a surrogate pair, which no file can; take it out"
    outputs = cell.get("outputs", [])
    if not isinstance(outputs, list) or not all(isinstance(one, dict) for one in outputs):
        return "has outputs of another form; make them [] and record it"
    has = isinstance(cell.get("metadata"), dict)
    return None if has else "has no metadata; save it as format 4.5"


def code_cells(notebook: dict[str, Any]) -> list[Cell]:
    """Return the cells that hold code, in order."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def source(cell: Cell) -> str:
    """Return the text of a cell, which the format keeps as one string or as lines."""
    return "".join(cell["source"])


def problem(one: Example, artefacts: Sequence[dict[str, Any]], folder: Path) -> str | None:
    """Return one line when the outputs in a notebook are not those that were recorded, or None."""
    if not is_notebook(one):
        return None
    recorded = [item["file"] for item in artefacts if _holds_outputs(item["file"], one)]
    if not recorded:
        return "its record has no outputs; record it again"
    try:
        kept = json.loads((folder / recorded[-1]).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return f"{recorded[-1]} holds no outputs; record it again"
    cells = code_cells(load(one.path, one.root))
    here = [{"id": cell["id"], "outputs": cell.get("outputs", [])} for cell in cells]
    counts = [cell.get("execution_count") for cell in cells]
    if here != kept or counts != list(range(1, len(cells) + 1)):
        return "the outputs in the notebook are not those that were recorded; record it again"
    return None


def _holds_outputs(file: str, one: Example) -> bool:
    """Whether a file has what the cells gave; of several the last one, others are a cell's own."""
    return file.startswith(f"{one.name}.outputs.") and file.endswith(".json")


def put_outputs(one: Example, files: dict[str, bytes]) -> str | None:
    """Write recorded outputs into the notebook, and leave out what differs by machine or day.

    Returns one line when it isn't the notebook any more that was run, which then stays as it is.

    Args:
        one: the notebook.
        files: artefacts of its record by name; without outputs among them nothing is written.
    """
    found = [content for name, content in files.items() if _holds_outputs(name, one)]
    if not found:
        return None
    kept = json.loads(found[-1])
    edited = "the notebook was edited while it ran; record it again"
    try:
        notebook = load(one.path, one.root)
    except BadExample:
        return edited
    if [cell.get("id") for cell in code_cells(notebook)] != [entry["id"] for entry in kept]:
        return edited
    entries = {entry["id"]: (n, entry["outputs"]) for n, entry in enumerate(kept, 1)}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["execution_count"], cell["outputs"] = entries[cell["id"]]
        tags = cell["metadata"].get("tags")
        cell["metadata"] = {"tags": tags} if tags else {}
    lab = notebook["metadata"].get("lab", {})
    notebook["metadata"] = KERNEL | ({"lab": lab} if lab else {})
    text = json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    replace(one.path, text.encode())
    return None


def _declared(said: Any, where: str) -> dict[str, Any]:
    """Return what metadata.lab sets, and the defaults of what it doesn't."""
    if not isinstance(said, dict):
        raise BadExample(f"{where}: metadata.lab is {said!r}; write an object, or leave it out")
    if unknown := sorted(set(said) - set(DEFAULTS)):
        raise BadExample(f"{where}: metadata.lab has {unknown[0]!r}; it takes {sorted(DEFAULTS)}")
    values = DEFAULTS | said
    for name in DEFAULTS:
        valid, wanted = example.RULES[name]
        if not valid(values[name]):
            raise BadExample(f"{where}: metadata.lab has {name}={values[name]!r}; give {wanted}")
    return values


def _check_cells(notebook: dict[str, Any], where: str) -> None:
    """Refuse what the key would not see, or what only IPython understands."""
    ids = [cell.get("id") for cell in notebook["cells"]]
    for cell, name in zip(notebook["cells"], ids, strict=True):
        if not isinstance(name, str) or not ID.fullmatch(name) or ids.count(name) > 1:
            raise BadExample(f"{where}: a cell has no id of its own; save it as format 4.5")
        if cell["cell_type"] != "code":
            continue
        try:
            body = ast.parse(source(cell)).body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise BadExample(f"{where}: cell {name!r} is not plain Python: {error}") from None
        if source(cell).rstrip().endswith(";"):
            raise BadExample(f"{where}: cell {name!r} ends with a semicolon; assign it to _")
        if body and syntax.is_text(body[-1]):
            raise BadExample(f"{where}: cell {name!r} ends with a bare string; print it")


def _words(notebook: dict[str, Any]) -> tuple[str, str]:
    """Return the title and the text under it, from the first cell."""
    first = notebook["cells"][0] if notebook["cells"] else {"cell_type": "code"}
    text = source(first) if first["cell_type"] == "markdown" else ""
    title, _, rest = text.partition("\n")
    return (title[2:].strip() if title.startswith("# ") else ""), rest.strip()
