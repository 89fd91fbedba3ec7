"""The notebooks: which there are, what each declares, and if its outputs are those recorded.

A notebook is run cell by cell like an example (see cells) and is known by an id such as
"notebooks/recompiles". What its cells gave is an artefact of its record, and stands once more in
the notebook itself, where Jupyter and the site show it.
"""

from __future__ import annotations

import ast
import json
import os
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
    notebook = load(path, root)
    said = notebook["metadata"].get("lab", {})
    values = DEFAULTS | (said if isinstance(said, dict) else {"lab": said})
    if unknown := sorted(set(values) - set(DEFAULTS)):
        raise BadExample(f"{where}: metadata.lab has {unknown[0]!r}; it takes {sorted(DEFAULTS)}")
    for name, wanted in (("devices", list), ("limit_s", int), ("data", list)):
        if not isinstance(values[name], wanted):
            raise BadExample(f"{where}: metadata.lab has {name}={values[name]!r}; see {FOLDER}")
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
    return notebook


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
    recorded = [item for item in artefacts if item["file"].startswith(f"{one.name}.outputs.")]
    if not recorded:
        return "its record has no outputs; record it again"
    kept = json.loads((folder / recorded[0]["file"]).read_text(encoding="utf-8"))
    cells = code_cells(load(one.path, one.root))
    here = [{"id": cell["id"], "outputs": cell.get("outputs", [])} for cell in cells]
    counts = [cell.get("execution_count") for cell in cells]
    if here != kept or counts != list(range(1, len(cells) + 1)):
        return "the outputs in the notebook are not those that were recorded; record it again"
    return None


def put_outputs(one: Example, files: dict[str, bytes]) -> None:
    """Write recorded outputs into the notebook, and leave out what differs by machine or day.

    Args:
        one: the notebook.
        files: artefacts of its record by name; without outputs among them nothing is written.
    """
    kept = next((content for name, content in files.items() if f"{one.name}.outputs." in name), b"")
    if not kept:
        return
    notebook = load(one.path, one.root)
    entries = {entry["id"]: (n, entry["outputs"]) for n, entry in enumerate(json.loads(kept), 1)}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["execution_count"], cell["outputs"] = entries[cell["id"]]
        tags = cell["metadata"].get("tags")
        cell["metadata"] = {"tags": tags} if tags else {}
    lab = notebook["metadata"].get("lab", {})
    notebook["metadata"] = KERNEL | ({"lab": lab} if lab else {})
    text = json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    replace(one.path, text.encode())


def _check_cells(notebook: dict[str, Any], where: str) -> None:
    """Refuse what the key would not see, or what only IPython understands."""
    ids = [str(cell.get("id")) for cell in notebook["cells"]]
    for cell, name in zip(notebook["cells"], ids, strict=True):
        if "id" not in cell or ids.count(name) > 1:
            raise BadExample(f"{where}: a cell has no id of its own; save it as format 4.5")
        if cell["cell_type"] != "code":
            continue
        try:
            body = ast.parse(source(cell)).body
        except (SyntaxError, ValueError) as error:
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
