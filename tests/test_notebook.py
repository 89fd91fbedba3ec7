"""Notebooks: what they declare, when they go stale, how they are run, and what the site shows."""

import io
import itertools
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import Repository
from small_site import make, mkdocs, warnings

from fba_lab import __main__, depend, measure, notebook, record
from fba_lab import cells as cells_of
from fba_lab.example import ROOT, BadExample
from fba_lab.recorder import record_all, run_missing

TITLE = ("markdown", "title", "# A title\n\nWhat it shows.")
ANSWER = ("code", "answer", "from snippets import train_gpt\ntrain_gpt.train(1.0)")
PRINTED = (
    "code",
    "printed",
    'import os, sys\nprint("out", os.getcwd())\n'
    'print("err", file=sys.stderr)\nprint("two\\nlines")',
)


def cells(*all_of: tuple[str, str, str]) -> list[dict[str, Any]]:
    found = []
    for kind, name, text in all_of:
        cell = {"cell_type": kind, "id": name, "metadata": {}, "source": text}
        if kind == "code":
            cell |= {"outputs": [], "execution_count": None}
            cell["metadata"] = {"execution": {"iopub.execute_input": "2026-01-01"}, "tags": ["a"]}
        found.append(cell)
    return found


def write(root: Path, *all_of: tuple[str, str, str], **lab: object) -> Path:
    path = root / notebook.FOLDER / "one.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = {"cells": cells(*all_of), "metadata": {"lab": lab}, "nbformat": 4, "nbformat_minor": 5}
    path.write_text(json.dumps(whole))
    return path


def recorded(root: Path) -> record.State:
    [result] = record_all(root, device_name="cpu", only="notebooks/*")
    assert result.problem is None, result.problem
    return state(root)


def state(root: Path) -> record.State:
    return record.state(notebook.discover(root)["notebooks/one"], "cpu", root)


def test_a_notebook_is_run_recorded_and_filled(repo: Repository) -> None:
    path = write(repo.root, TITLE, ANSWER, PRINTED)
    assert state(repo.root).status == "missing"
    found = recorded(repo.root)
    assert (found.status, found.problem) == ("fresh", None)
    whole = json.loads(path.read_text())
    value, printed = notebook.code_cells(whole)
    assert value["outputs"][0]["data"] == {"text/plain": ["36.0"]}
    assert printed["outputs"] == [
        {"output_type": "stream", "name": "stdout", "text": ["out $TMP\n"]},
        {"output_type": "stream", "name": "stderr", "text": ["err\n"]},
        {"output_type": "stream", "name": "stdout", "text": ["two\n", "lines\n"]},
    ]
    assert [value["execution_count"], printed["execution_count"]] == [1, 2]
    assert value["metadata"] == {"tags": ["a"]}
    assert found.record
    assert "out $TMP" in found.record.text
    assert __main__.strays(repo.root) == []
    rows = __main__.check(repo.root)
    assert [(row["example"], row["status"]) for row in rows] == [("notebooks/one", "fresh")]


def test_only_code_and_what_it_reaches_make_it_stale(repo: Repository) -> None:
    path = write(repo.root, TITLE, ANSWER)
    recorded(repo.root)
    whole = json.loads(path.read_text())
    whole["cells"][0]["source"] = "# Another title\n\nOther words."
    path.write_text(json.dumps(whole))
    repo.edit("train_gpt.py", "    # a comment\n", "")
    assert state(repo.root).status == "fresh"
    repo.edit("train_gpt.py", "return 2 * x * SIZE", "return 3 * x * SIZE")
    assert state(repo.root).reasons == ["train_gpt.scale changed"]
    whole["cells"][1]["source"] = "from snippets import train_gpt\ntrain_gpt.scale(1.0)"
    path.write_text(json.dumps(whole))
    assert "example changed" in state(repo.root).reasons


def test_a_cell_cut_in_two_is_another_notebook(repo: Repository) -> None:
    write(repo.root, TITLE, ("code", "a", "x = 1\nx"))
    whole = depend.key(notebook.discover(repo.root)["notebooks/one"], repo.root)
    write(repo.root, TITLE, ("code", "a", "x = 1"), ("code", "b", "x"))
    assert depend.key(notebook.discover(repo.root)["notebooks/one"], repo.root).hash != whole.hash


@pytest.mark.parametrize("edit", ["text", "count", "gone"])
def test_outputs_edited_by_hand_are_found(
    repo: Repository, edit: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(repo.root, TITLE, ANSWER)
    recorded(repo.root)
    assert __main__.main(["check", "--root", str(repo.root)]) == 0
    whole = json.loads(path.read_text())
    [cell] = notebook.code_cells(whole)
    if edit == "text":
        cell["outputs"][0]["data"]["text/plain"] = ["37.0"]
    elif edit == "count":
        cell["execution_count"] = 7
    else:
        cell["outputs"] = []
    path.write_text(json.dumps(whole))
    assert "not those that were recorded" in (state(repo.root).problem or "")
    assert __main__.main(["check", "--root", str(repo.root)]) == 1
    assert "not those that were recorded" in capsys.readouterr().out


def test_one_that_raises_is_not_filled(repo: Repository) -> None:
    path = write(repo.root, TITLE, ("code", "a", 'print("before")\n1 / 0'))
    before = path.read_text()
    [result] = record_all(repo.root, device_name="cpu", only="notebooks/*")
    assert result.problem == "error: ZeroDivisionError: division by zero"
    assert path.read_text() == before
    found = state(repo.root)
    assert found.record
    assert found.record.text == "before\n"


def test_out_and_mode_run_leave_the_notebook_as_it_is(repo: Repository, tmp_path: Path) -> None:
    path = write(repo.root, TITLE, ANSWER)
    before = path.read_text()
    record_all(repo.root, device_name="cpu", only="notebooks/*", out=tmp_path / "out")
    assert run_missing(repo.root) == []
    assert path.read_text() == before


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        (("code", "a", "!ls"), "cell 'a' is not plain Python"),
        (("code", "a", "x = 1;"), "ends with a semicolon"),
        (("code", "a", "x = 1\n'text'"), "ends with a bare string"),
        (("code", "title", "x = 1"), "no id of its own"),
    ],
)
def test_cells_that_cannot_be_kept_are_refused(
    repo: Repository, cell: tuple[str, str, str], message: str
) -> None:
    write(repo.root, TITLE, cell)
    with pytest.raises(BadExample, match=re.escape(message)) as error:
        notebook.discover(repo.root)
    assert str(error.value).startswith("docs/notebooks/one.ipynb:1: ")


@pytest.mark.parametrize("text", ["", "[]", "{", '{"cells": []}', '{"cells": {}, "metadata": {}}'])
def test_what_is_no_notebook_is_one_line(repo: Repository, text: str) -> None:
    write(repo.root, TITLE).write_text(text)
    assert __main__.main(["check", "--root", str(repo.root)]) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"source": None}, "cell 2 has no source of text"),
        ({"source": [1]}, "cell 2 has no source of text"),
        ({"source": "'\ud800'"}, "cell 2 holds half a surrogate pair"),
        ({"source": "x = " + "-" * 20_000 + "1"}, "cell 'answer' is not plain Python"),
        ({"metadata": None}, "cell 2 has no metadata"),
        ({"cell_type": "heading"}, "cell 2 is neither code nor"),
        ({"outputs": 5}, "cell 2 has outputs of another form"),
        ({"id": 5}, "no id of its own"),
        ({"id": "<b>"}, "no id of its own"),
    ],
)
def test_a_cell_that_the_format_does_not_know_is_one_line(
    repo: Repository, change: dict[str, Any], message: str
) -> None:
    path = write(repo.root, TITLE, ANSWER)
    whole = json.loads(path.read_text())
    whole["cells"][1] |= change
    path.write_text(json.dumps(whole))
    with pytest.raises(BadExample, match=re.escape(message)):
        notebook.discover(repo.root)
    whole["cells"][1] = "no cell"
    path.write_text(json.dumps(whole))
    assert __main__.main(["check", "--root", str(repo.root)]) == 2
    assert __main__.main(["wording", str(path)]) == 2


def test_another_format_and_a_name_for_no_address_are_refused(repo: Repository) -> None:
    path = write(repo.root, TITLE, ANSWER)
    whole = json.loads(path.read_text())
    path.write_text(json.dumps(whole | {"nbformat": 3}))
    with pytest.raises(BadExample, match="nbformat is 3; save it as"):
        notebook.discover(repo.root)
    path.write_text(json.dumps(whole))
    for name in ("one.two.ipynb", "Ä b.ipynb"):  # "one" would remove the records of "one.two"
        other = path.with_name(name)
        shutil.copy(path, other)
        with pytest.raises(BadExample, match="is no name for a notebook"):
            notebook.discover(repo.root)
        other.unlink()


EDIT = """\
import json, os, pathlib
file = pathlib.Path(os.environ["LAB_ROOT"], "docs/notebooks/one.ipynb")
whole = json.loads(file.read_text())
whole["cells"].append(whole["cells"][1] | {"id": "new"})
_ = file.write_text(json.dumps(whole))"""


@pytest.mark.parametrize("code", [EDIT, EDIT + "\nfile.unlink()"])
def test_one_edited_while_it_runs_is_left_alone(repo: Repository, code: str) -> None:
    path = write(repo.root, TITLE, ("code", "a", code))
    [result] = record_all(repo.root, device_name="cpu", only="notebooks/*")
    assert result.problem == "the notebook was edited while it ran; record it again"
    if path.exists():
        assert [cell["outputs"] for cell in notebook.code_cells(notebook.load(path))] == [[], []]
        assert state(repo.root).status == "stale"


def test_cells_may_change_folder_and_stdout_and_report_files_of_their_own(repo: Repository) -> None:
    other = 'from fba_lab import measure\nopen("outputs.json", "w").write("[]")\n'
    other += 'measure.artefact("outputs.json", "json")'
    moved = "import io, os, sys\nos.mkdir('deep')\nos.chdir('deep')\nsys.stdout = io.StringIO()\n5"
    path = write(repo.root, TITLE, ("code", "a", moved), ("code", "b", other))
    found = recorded(repo.root)
    assert found.problem is None
    [first, _] = notebook.code_cells(notebook.load(path))
    assert first["outputs"][0]["data"] == {"text/plain": ["5"]}


def test_a_flood_takes_neither_time_nor_memory(repo: Repository) -> None:
    pieces: list[dict[str, Any]] = []
    stream = cells_of.Stream("stdout", pieces, io.StringIO())
    for _ in range(300_000):
        stream.write("a line of text\n")
    kept = sum(len(text) for text in pieces[0]["text"])
    assert measure.ARTEFACT_LIMIT < kept <= 2 * measure.ARTEFACT_LIMIT


def test_declarations_are_checked(repo: Repository) -> None:
    for lab, message in (
        ({"limit": 3}, "'limit'"),
        ({"devices": "cpu"}, "devices='cpu'"),
        ({"devices": []}, "a list of devices"),
        ({"limit_s": -1}, "a number of seconds above 0"),
        ({"data": [{}]}, "a list of names"),
    ):
        write(repo.root, TITLE, **lab)
        with pytest.raises(BadExample, match=message):
            notebook.discover(repo.root)
    write(repo.root, ANSWER)
    with pytest.raises(BadExample, match="no title"):
        notebook.discover(repo.root)


def test_the_site_shows_it_light_and_with_its_provenance(tmp_path: Path) -> None:
    root = make(tmp_path)
    write(root, TITLE, ("code", "a", "print('<b>1</b>')"))
    record_all(root, device_name="cpu")
    built = mkdocs(root, "--strict")
    assert [line for line in warnings(built) if "notebooks" in line] == []
    page = (root / "site/notebooks/one/index.html").read_text()
    content = page[page.index("<article") : page.index("</article>")]
    assert len(page) < 60_000
    assert "Run on" in content
    assert "&lt;b&gt;1&lt;/b&gt;" in content
    for gone in ("<style", "<script", "cdnjs", "clipboard", 'src="http'):
        assert gone not in content
    assert (root / "site/notebooks/one/one.ipynb").is_file()
    path = root / "docs/notebooks/one.ipynb"
    path.write_text(path.read_text().replace("<b>1</b>\\n", "<b>2</b>\\n"))
    broken = mkdocs(root, "--strict")
    assert broken.returncode == 1
    assert any("not those that were recorded" in line for line in warnings(broken))
    path.write_text(path.read_text().replace("print('<b>1", "print('<b>0"))
    stale = mkdocs(root, "--strict")
    assert any("notebooks/one on cpu is stale: example changed" in w for w in warnings(stale))


def test_a_broken_one_is_a_problem_with_its_place(tmp_path: Path) -> None:
    root = make(tmp_path)
    write(root, TITLE, ("code", "a", "1"))
    record_all(root, device_name="cpu")
    other = root / notebook.FOLDER / "two.ipynb"
    for text in ("{", '{"cells": [], "metadata": {}, "nbformat": 4}'):
        other.write_text(text)
        built = mkdocs(root, "--strict")
        assert built.returncode == 1
        assert "Traceback" not in built.stdout + built.stderr
        assert any("docs/notebooks/two.ipynb:1: " in line for line in warnings(built))


@pytest.mark.parametrize("one", notebook.discover(ROOT).values(), ids=lambda one: one.id)
def test_committed_outputs_tell_nothing_of_a_machine(one: Any) -> None:
    text = one.path.read_text()
    assert not re.search(r"/(?:root|home|tmp|work|usr)/|⟦|0x[0-9a-f]{6}", text)
    assert "execution" not in {
        key for cell in json.loads(text)["cells"] for key in cell["metadata"]
    }


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("one", notebook.discover(ROOT).values(), ids=lambda one: one.id)
def test_jupyter_gives_the_same_outputs(one: Any, tmp_path: Path) -> None:
    """Run as a reader would: by another runner than ours, in the notebook's folder."""
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    copy = tmp_path / "copy.ipynb"
    shutil.copy(one.path, copy)
    ran = nbformat.read(copy, as_version=4)
    for cell in ran.cells:
        cell.pop("outputs", None)
        if cell.cell_type == "code":
            cell.outputs = []
    client = nbclient.NotebookClient(ran, timeout=600, resources={"metadata": {"path": tmp_path}})
    client.execute()
    for kept, new in zip(notebook.code_cells(notebook.load(one.path)), _code(ran), strict=True):
        assert _kinds(new["outputs"]) == _kinds(kept["outputs"])


def _kinds(outputs: list[Any]) -> list[tuple[str, str | None]]:
    """Return the kinds in a row; when a kernel sends what it holds of a stream is up to it."""
    kinds = [(output["output_type"], output.get("name")) for output in outputs]
    return [kind for kind, _ in itertools.groupby(kinds)]


def _code(ran: Any) -> list[Any]:
    return [cell for cell in ran.cells if cell.cell_type == "code"]


def test_the_plugin_takes_notebooks_only_and_runs_none() -> None:
    text = (ROOT / "mkdocs.yml").read_text()
    for line in ('include: ["*.ipynb"]', "execute: false", "allow_errors: false", "cache: false"):
        assert line in text


def test_recording_one_loads_nothing_of_the_site() -> None:
    code = "import sys, fba_lab.cells, fba_lab.recorder; print(*sys.modules)"
    done = subprocess.run(["python3", "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert not {"nbformat", "nbclient", "mkdocs", "torch", "numpy"} & set(done.stdout.split())
