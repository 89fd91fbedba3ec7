"""Strict builds of a small site with real records: what must fail does, with its place."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from small_site import PAGE, copy_record, html, make, mkdocs, record_file, warnings

from fba_lab import record, recorder, suite

PATH = "docs/blocks/model-compile.md"
FENCE = '```python exec="true"{}\nfrom fba_lab import pages\n{}\n```\n'


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site whose examples were run and recorded."""
    root = make(tmp_path_factory.mktemp("recorded"))
    recorder.record_all(root, device_name="cpu")
    return root


@pytest.fixture
def site(recorded: Path, tmp_path: Path) -> Path:
    """A copy that a test may break."""
    return Path(shutil.copytree(recorded, tmp_path / "site"))


def edit(path: Path, old: str, new: str) -> None:
    """Replace a piece of a file that must be there."""
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def line_of(root: Path, text: str) -> int:
    """Return the line of the page that holds a text."""
    lines = (root / PATH).read_text().splitlines()
    return next(at for at, line in enumerate(lines, 1) if text in line)


def test_replay_runs_nothing_and_needs_no_torch(site: Path, tmp_path: Path) -> None:
    bomb = tmp_path / "path/torch"
    bomb.mkdir(parents=True)
    (bomb / "__init__.py").write_text("raise SystemError('torch was imported')")
    before = {path: path.stat().st_mtime_ns for path in site.glob("snippets/**/*.json")}
    for example in site.glob("snippets/examples/*/*.py"):  # whoever imports it leaves a trace
        example.write_text(example.read_text().replace("\nLAB =", "\n\nLAB =", 1))
    run = mkdocs(site, "--strict", PYTHONPATH=f"{bomb.parent}:{Path(__file__).parent.parent}")
    assert (run.returncode, warnings(run)) == (0, []), run.stderr
    assert before == {path: path.stat().st_mtime_ns for path in site.glob("snippets/**/*.json")}
    assert not (site / ".lab").exists()
    assert "not recorded" not in html(site)


def test_text_of_a_run_is_inert(site: Path) -> None:
    assert mkdocs(site, "--strict").returncode == 0
    page = html(site)
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "```python exec=" in page  # shown, not evaluated
    assert "--8&lt;-- " in page
    assert "site_name" not in page
    assert "{{ metric(" in page
    assert "\x1b" not in page
    assert '<span class="t-red">red</span>' in page
    assert 'class="t-bold t-green">✓' in page  # also where the builder's NO_COLOR is set
    assert "&lt;i&gt;print&lt;/i&gt;" in page
    search = (site / "site/search/search_index.json").read_text()
    assert "doubled: 42" not in search


def test_page_shows_results_places_and_provenance(site: Path) -> None:
    assert mkdocs(site, "--strict").returncode == 0
    page = html(site)
    line = (site / "snippets/train_gpt.py").read_text().splitlines().index("    return x / 0") + 1
    assert f'href="../../source/train_gpt/#train_gpt-{line}"' in page
    assert f"snippets/train_gpt.py:{line}, in divide" in page
    assert f'id="train_gpt-{line}"' in html(site, "source/train_gpt")
    assert 'title="compiled&#95;ms' in page
    assert "11.5\u00a0ms" in page
    assert "width 64" in re.sub("<[^>]*>", "", page).replace("\n", " ")
    assert "✓ first-steps ran on" in page
    assert page.count("<h1") == 1
    artefact = re.search(r'href="../../(records/cpu/model-compile/[^"]*)"', page)
    assert artefact
    assert (site / "site" / artefact[1]).read_text() == "a note"


def test_moved_code_moves_its_lines(site: Path) -> None:
    edit(
        site / "snippets/train_gpt.py", '"""A small trainer."""\n', '"""A small\n\n\ntrainer."""\n'
    )
    run = mkdocs(site, "--strict")
    assert (run.returncode, warnings(run)) == (0, [])
    line = (site / "snippets/train_gpt.py").read_text().splitlines().index("    return x / 0") + 1
    assert f"snippets/train_gpt.py:{line}, in divide" in html(site)


MISTAKES: list[tuple[str, str]] = [
    (
        FENCE.format("", 'pages.show("model-compile/first-step")'),
        "did you mean model-compile/first",
    ),
    (FENCE.format("", 'pages.show("model-compile/fails", opne=True)'), "has no option 'opne'"),
    (FENCE.format("", 'pages.show("model-compile/fails", device="h100")'), "has no device 'h100'"),
    (FENCE.format("", 'pages.shwo("model-compile/fails")'), "did you mean show"),
    (FENCE.format("", 'pages.chart("model-compile/first-steps", "step")'), "has no series 'step'"),
    (FENCE.format("", 'pages.table("model-compile/first-steps", "brakes")'), "did you mean breaks"),
    (FENCE.format("", 'pages.header("model-compil")'), "did you mean model-compile"),
    (FENCE.format("", 'pages.block("model-compile", notes={"return": "", "e": ""})'), "fits"),
    (FENCE.format("", "pages.show()"), "missing 1 required positional argument"),
    (FENCE.format("", "raise SystemExit(0)"), "one call of it"),
    (FENCE.format(' source="abovee"', "pages.blocks()"), "unknown fence option 'source'"),
    (FENCE.format(' timeout="3"', "pages.blocks()"), "unknown fence option 'timeout'"),
    ('```bash exec="true"\ntouch ran\n```\n', "a bash fence is not evaluated"),
    ('{{ metric("model-compile/first-steps", "compild_ms") }}', "did you mean compiled_ms"),
    ('{{ metric("model-compile/first-steps", "graphs", feild="n") }}', "did you mean field"),
    ('{{ metrc("model-compile/first-steps", "graphs") }}', "did you mean metric"),
    ('{{ code("Config.widht") }}', "did you mean width"),
    ('{{ claim("model-compile/first-steps", "close_ms < eager_ms") }}', "does not hold"),
    ('{{ claim("model-compile/first-steps", "fast_ms < 1") }}', "no metric 'fast_ms'"),
    ('{{ metric("model-compile/first-steps" }}', "does not parse"),
    ('{ { metric("model-compile/first-steps", "graphs") }}', "looks like a macro"),
    ('{% claim("model-compile/first-steps", "graphs == 3") %}', "looks like a macro"),
    ('metric("model-compile/first-steps", "graphs") }}', "looks like a macro"),
    ('{{ metric("model-compile/first-steps", "graphs")', "looks like a macro"),
    (FENCE.format("", "pages.show(exit())"), "literals, not `exit()`"),
    ("{{ ().__class__ }}", "unknown macro"),
]


def test_mistakes_on_a_page_each_fail_with_their_line(site: Path) -> None:
    text, expected = PAGE, []
    for piece, said in MISTAKES:
        expected.append((text.count("\n") + 1, said))
        text += f"{piece}\n\n"
    (site / PATH).write_text(text)
    run = mkdocs(site, "--strict")
    assert run.returncode == 1, run.stderr
    found = warnings(run)
    for line, said in expected:
        here = [text for text in found if text.startswith(f"{PATH}:{line}: ")]
        assert len(here) == 1, (line, said, found)
        assert said in here[0]
    assert len(found) == len(expected), found
    page = html(site)
    assert page.count("This page has a problem") == sum(
        "pages" in m or "bash" in m for m, _ in MISTAKES
    )
    assert "✓ first-steps ran on" in page  # everything else stays
    assert not (site / "ran").exists()


def test_a_fence_that_is_dropped_fails(site: Path) -> None:
    with (site / PATH).open("a") as page:
        # Markdown takes it for prose without the quotation marks.
        page.write("\n" + FENCE.format("", "pages.blocks()").replace('"true"', "true"))
    run = mkdocs(site, "--strict")
    line = line_of(site, "exec=true")
    assert run.returncode == 1
    assert warnings(run) == [
        f"{PATH}:{line}: the fence was not evaluated; check its options and indentation"
    ]


def break_missing(site: Path) -> None:
    record_file(site, "fails").unlink()


def break_stale(site: Path) -> None:
    edit(site / "snippets/train_gpt.py", "return x / 0", "return +x / 0")
    edit(site / "snippets/train_gpt.py", "return 2 * x", "return x + x")


def break_status(site: Path) -> None:
    path = record_file(site, "fails")
    record = json.loads(path.read_text()) | {"status": "timeout"}
    path.write_text(json.dumps(record))


def break_file(site: Path) -> None:
    record_file(site, "fails").write_text("{")


@pytest.mark.parametrize(
    ("breaks", "said", "shown"),
    [
        (break_missing, "no record of model-compile/fails on cpu", "not recorded"),
        (break_stale, "train_gpt.double changed", "stale"),
        (break_status, "ended otherwise than declared: timeout", "✗ timeout"),
        (break_file, "not valid JSON", "This page has a problem"),
    ],
)
def test_records_that_do_not_hold_fail(
    site: Path, breaks: Callable[[Path], None], said: str, shown: str
) -> None:
    breaks(site)
    run = mkdocs(site, "--strict")
    found = warnings(run)
    assert run.returncode == 1, run.stderr
    assert any(said in text and text.startswith(PATH) for text in found), found
    assert shown in html(site)
    if breaks is not break_file:
        assert any("; type: python -m fba_lab record --only model-compile/" in t for t in found)


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_a_page_in_another_encoding_is_a_problem_and_no_crash(site: Path, encoding: str) -> None:
    (site / "docs/log.md").write_text("# Log é\n", encoding=encoding)
    run = mkdocs(site, "--strict")
    assert run.returncode == 1
    assert "Traceback" not in run.stderr
    [found] = warnings(run)
    assert found.startswith("docs/log.md:1: the page cannot be read")


def test_artefacts_stay_inside_the_site_and_may_not_be_missing(site: Path) -> None:
    file = record_file(site, "first-steps")
    record = json.loads(file.read_text())
    name = record["artefacts"][0]["file"]
    (file.parent / name).unlink()
    run = mkdocs(site, "--strict")
    assert run.returncode == 1
    assert any(name in text for text in warnings(run)), run.stderr
    record["artefacts"][0]["file"] = "../../../../mkdocs.yml"
    file.write_text(json.dumps(record))
    before = sorted(path for path in site.parent.rglob("*.yml"))
    run = mkdocs(site, "--strict")
    assert run.returncode == 1
    assert "Traceback" not in run.stderr
    assert warnings(run)
    assert before == sorted(path for path in site.parent.rglob("*.yml"))


def test_a_trainer_that_does_not_parse_is_a_problem_and_no_crash(site: Path) -> None:
    trainer = site / "snippets/train_gpt.py"
    trainer.write_text(trainer.read_text() + "x = (\n")
    run = mkdocs(site)  # as `mkdocs serve` builds: it must go on, or the server hangs
    assert run.returncode == 0, run.stderr
    assert "Traceback" not in run.stderr
    assert any("snippets/train_gpt.py:" in text and "not valid Python" in text
               for text in warnings(run))  # fmt: skip
    assert mkdocs(site, "--strict").returncode == 1


def test_a_record_that_no_page_shows_still_fails(site: Path) -> None:
    edit(site / PATH, 'pages.show("model-compile/fails")', "pages.blocks()")
    break_missing(site)
    run = mkdocs(site, "--strict")
    file = "snippets/examples/model_compile/fails.py"
    assert [text.split(": ")[0] for text in warnings(run)] == [f"{file}:1"]
    assert run.returncode == 1


def test_quiet_does_not_hide_a_problem_from_strict(site: Path) -> None:
    break_missing(site)
    assert mkdocs(site, "--strict", "--quiet").returncode == 1


def test_pending_is_shown_and_passes(site: Path) -> None:
    break_stale(site)
    entries = [
        {
            "example": f"model-compile/{name}",
            "device": "cpu",
            "reason": "no GPU",
            "date": "2026-01-01",
        }
        for name in ("fails", "first-steps")
    ]
    (site / "snippets/records/pending.json").write_text(json.dumps(entries))
    run = mkdocs(site, "--strict")
    assert (run.returncode, warnings(run)) == (0, [])
    assert "Pending: no GPU" in html(site)
    assert "Stale: train_gpt.double changed." in html(site)


def test_tests_that_need_a_gpu_answer_for_their_record(site: Path) -> None:
    (site / "tests").mkdir()
    test = "import pytest\n\n@pytest.mark.gpu\ndef test_it():\n    assert True\n"
    (site / "tests" / "test_it.py").write_text(test)
    run = mkdocs(site, "--strict")
    assert run.returncode == 1
    assert warnings(run) == [
        "tests:1: no record of suite/gpu on h200; on such a GPU, type: pytest -m gpu --record"
    ]
    ran = [suite.Ran("test_it", "passed", 0.1)]
    made = suite.make(ran, "h200", 0.1, None, site)
    record.write(made, {}, suite.example(site), site)
    run = mkdocs(site, "--strict")
    assert (run.returncode, warnings(run)) == (0, [])


def test_a_torch_out_of_range_is_said_and_passes(site: Path) -> None:
    copy_record(site, "fails", "h100", provenance={"torch": "2.9.1", "device_name": "NVIDIA H100"})
    run = mkdocs(site, "--strict")
    assert (run.returncode, warnings(run)) == (0, [])
    assert "Made with another torch: 2.9.1" in html(site)


def test_mode_run_keeps_local_results(site: Path) -> None:
    break_stale(site)
    run = mkdocs(site, "--strict", mode="run")
    assert (run.returncode, warnings(run)) == (0, []), run.stderr
    assert "Local: made on the machine" in html(site)
    local = list((site / ".lab/records/cpu/model-compile").glob("*.json"))
    assert len(local) == 2
    times = [path.stat().st_mtime_ns for path in local]
    assert mkdocs(site, "--strict", mode="run").returncode == 0
    assert times == [path.stat().st_mtime_ns for path in local]  # nothing was run again


def test_mode_record_writes_records(site: Path) -> None:
    break_stale(site)
    run = mkdocs(site, "--strict", mode="record", CUDA_VISIBLE_DEVICES="")
    assert (run.returncode, warnings(run)) == (0, []), run.stderr
    assert mkdocs(site, "--strict").returncode == 0


def test_mode_off_shows_code_only(site: Path) -> None:
    break_missing(site)
    run = mkdocs(site, "--strict", mode="off")
    assert (run.returncode, warnings(run)) == (0, [])
    page = html(site)
    assert "def main" in re.sub("<[^>]*>", "", page)
    assert "lab-result" not in page


def test_unknown_mode_is_one_line(site: Path) -> None:
    run = mkdocs(site, mode="replya", NO_MKDOCS_2_WARNING="1")
    assert run.returncode == 1
    assert "did you mean replay" in run.stderr
    assert len(run.stderr.strip().splitlines()) == 1
    assert "Traceback" not in run.stderr
