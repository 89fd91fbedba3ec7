"""The reference of results: all numbers of the report, each with its provenance and its page."""

import json
import re
import shutil
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest
from small_site import copy_record, make, record_file

from fba_lab import __main__ as commands
from fba_lab import build, recorder, reference, render

ID = "model-compile/first-steps"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = make(tmp_path_factory.mktemp("reference"))
    recorder.record_all(root, device_name="cpu")
    copy_record(root, "first-steps", "h200", provenance={"device_name": "NVIDIA H200"}, key="old")
    return root


@pytest.fixture
def site(recorded: Path) -> Iterator[build.Build]:
    site = build.start(recorded, "replay")
    site.pages = {
        "index.md": "./",
        "blocks/model-compile.md": "blocks/model-compile/",
        "gone.md": "gone/",
    }
    site.enter_page("docs/reference/results.md", "../../")
    yield site
    build.start(build.ROOT, "replay")


def cells(html: str) -> list[list[str]]:
    """Return the text of the cells of each row."""
    rows = re.findall(r"<tr.*?</tr>", html, re.DOTALL)
    found = [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL) for row in rows]
    return [[unescape(re.sub("<[^>]*>", "", cell)).strip() for cell in row] for row in found]


def test_every_number_of_the_report_is_there(site: build.Build) -> None:
    rows = cells(reference.numbers(site))
    wanted = commands.report(site.root)
    assert len(wanted) == 8  # four on each device
    for row in wanted:
        low, high = render.number(row["low"], 6), render.number(row["high"], 6)
        spread = f"{low} – {high}" if row["n"] > 1 else ""
        value = render.number(row["value"], 6)
        assert [row["metric"], value, row["unit"], spread, str(row["n"])] in rows
        heads = [one[0] for one in rows if len(one) == 1 and one[0].startswith(row["example"])]
        said = [str(row["device_name"]), str(row["commit"] or "")[:9], str(row["date"] or "")[:10]]
        assert any(all(word in head for word in said) for head in heads), said


def test_heads_say_how_it_ended(site: build.Build) -> None:
    out = reference.numbers(site)
    heads = [row[0] for row in cells(out) if len(row) == 1]
    assert any("✓ ran · stale" in head and "NVIDIA H200" in head for head in heads)
    assert any(head.startswith("ZeroDivisionError: division by zero") for head in heads)
    assert "also 1 table, 1 series, 1 file" in out
    assert "torch.compile on the model</a>: 8 numbers" in out
    assert re.findall(r"<h3[^>]*>([^<]*)", out) == ["CPU", "H200"]


def test_ids_of_links_are_there(site: build.Build) -> None:
    out = reference.numbers(site)
    assert set(re.findall(r'href="#([^"]*)"', out)) <= set(re.findall(r'id="([^"]*)"', out))


def test_examples_lead_to_where_they_are_shown(site: build.Build) -> None:
    where = reference.places(site)
    shown = "../../blocks/model-compile/#model-compile-first-steps"
    assert where[ID] == shown
    assert f'href="{shown}"' in reference.numbers(site)
    assert "model-compile/traced (on no page)" in reference.numbers(site)


def test_a_page_that_only_speaks_of_an_example_will_do(site: build.Build) -> None:
    index = site.root / "docs/index.md"
    before = index.read_text()
    index.write_text(before + '\nIt took {{ metric("model-compile/traced", "x") }}.\n')
    assert reference.places(site)["model-compile/traced"] == "../.././"
    index.write_text(before)


def test_the_panel_shows_the_main_example(site: build.Build) -> None:
    page = site.root / "docs/blocks/model-compile.md"
    before = page.read_text()
    page.write_text('```python exec="true"\npages.terminal("model-compile")\n```\n')
    assert reference.places(site)[ID] == "../../blocks/model-compile/"
    page.write_text(before)


def test_what_belongs_to_no_block_is_there_too(site: build.Build) -> None:
    tests = site.root / "tests"
    tests.mkdir()
    (tests / "test_x.py").write_text("import pytest\n@pytest.mark.gpu\ndef test_x():\n    pass\n")
    copy_record(site.root, "first-steps", "h200", example="suite/gpu", artefacts=[])
    path = record_file(site.root, "first-steps", "h200")
    folder = site.root / "snippets/records/h200/suite"
    folder.mkdir()
    path.rename(folder / "gpu.json")
    site.pages["notebooks/breaks.ipynb"] = "notebooks/breaks/"
    out = reference.numbers(site)
    assert "Tests on a GPU</a>: 4 numbers" in out
    assert 'id="results-suite-h200"' in out
    assert reference.places(site)["notebooks/breaks"] == "../../notebooks/breaks/"
    shutil.rmtree(folder)
    shutil.rmtree(tests)
    copy_record(
        site.root, "first-steps", "h200", provenance={"device_name": "NVIDIA H200"}, key="old"
    )


def test_what_a_run_said_is_text(site: build.Build) -> None:
    path = record_file(site.root, "fails")
    before = path.read_text()
    values = json.loads(before)
    values["error"]["message"] = "<script>\x1b[31m" + "long " * 100
    path.write_text(json.dumps(values))
    out = reference.numbers(site)
    assert "<script>" not in out
    assert "…" in out
    path.write_text(before)
