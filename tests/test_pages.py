"""The calls that fences make: what they print, and that a mistake never ends the page."""

import html as text
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from small_site import copy_record, make, record_file

from fba_lab import build, output, pages, prose, recorder

ID = "model-compile/first-steps"
TRACED = "model-compile/traced"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = make(tmp_path_factory.mktemp("pages"))
    recorder.record_all(root, device_name="cpu")
    copy_record(root, "first-steps", "h200", provenance={"device_name": "NVIDIA H200"})
    return root


@pytest.fixture
def site(recorded: Path) -> Iterator[build.Build]:
    site = build.start(recorded, "replay")
    site.enter_page("docs/blocks/model-compile.md", "../../")
    site.line = 7
    yield site
    build.start(build.ROOT, "replay")


def printed(
    site: build.Build, call: Callable[..., None], *arguments: object, **options: object
) -> str:
    """Return what a call prints."""
    out: list[str] = []
    site.write = out.append
    call(*arguments, **options)
    return "".join(out)


def words(html: str) -> str:
    """Return the text of HTML."""
    return re.sub(r"\s+", " ", text.unescape(re.sub("<[^>]*>", " ", html)))


def macro(site: build.Build, expression: str) -> str:
    return prose.expand("{{ " + expression + " }}", 1, site)


def test_the_calls_are_these() -> None:
    assert pages.CALLS == [
        "header",
        "blocks",
        "block",
        "source",
        "show",
        "terminal",
        "chart",
        "timeline",
        "table",
        "trace",
        "results",
        "cli",
    ]


def test_header(site: build.Build) -> None:
    site.pages = {"blocks/model-compile.md": "blocks/model-compile/"}
    site.sources = {"snippets/train_gpt.py": "source/train_gpt/"}
    out = printed(site, pages.header, "model-compile", needs=["model-build"], explanation="why")
    said = words(out)
    for piece in ("train_gpt.py", "torch.compile", "1/1", "Quick summary.", "Read first: Building"):
        assert piece in said
    assert 'href="#why"' in out
    assert 'href="../../source/train_gpt/"' in out
    assert out.count('type="radio"') == 5
    assert 'aria-current="page"' in out
    assert not site.problems


def test_block_has_true_lines_and_notes(site: build.Build) -> None:
    notes = {"fullgraph=True": "no silent <fallback>", "return model": "the same weights"}
    out = printed(site, pages.block, "model-compile", notes=notes)
    assert re.findall(r'data-linenos="(\d+) "', out) == ["30", "31", "32"]
    assert "--8&lt;--" not in out
    assert "no silent &lt;fallback&gt;" in out
    assert 'href="#code-31-note-1"' in out
    assert 'id="code-31-note-1"' in out
    assert 'id="code-32-note-2"' in out


def test_show_has_each_device_and_the_source_once(site: build.Build) -> None:
    out = printed(site, pages.show, ID)
    assert re.findall(r'class="device (device-\w+)" open', out) == ["device-cpu", "device-h200"]
    assert "NVIDIA H200" in out
    assert words(out).count("20.75 – 22.25") == 2
    again = printed(site, pages.show, ID, device="h200")
    assert not set(re.findall(r' id="([^"]*)"', out)) & set(re.findall(r' id="([^"]*)"', again))
    assert 'href="#model-compile-first-steps"' in again
    assert not site.problems


def test_a_long_table_is_folded_among_results_and_open_by_itself(
    site: build.Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "breaks: 2 rows" not in printed(site, pages.show, ID, device="cpu")
    monkeypatch.setattr(output, "LONG", 1)
    assert "<summary>breaks: 2 rows</summary>" in printed(site, pages.show, ID, device="cpu")
    assert "<summary>breaks" not in printed(site, pages.table, ID, "breaks", device="cpu")


def test_expected_error_shows_what_came_before(site: build.Build) -> None:
    said = words(printed(site, pages.show, "model-compile/fails"))
    assert said.index("before cpu") < said.index("ZeroDivisionError : division by zero")
    assert "✓ failed as declared" in said


def test_terminal_ends_in_a_tick_only_when_declared(site: build.Build, tmp_path: Path) -> None:
    out = words(printed(site, pages.terminal, "model-compile"))
    assert "$ study train_gpt.py --block model-compile" in out
    assert "✓ first-steps ran on NVIDIA H200" in out
    root = make(tmp_path / "other")
    recorder.record_all(root, device_name="cpu")
    path = record_file(root, "first-steps")
    ended = {"status": "signal", "error": {"type": "SIGSEGV", "message": "", "frames": []}}
    path.write_text(json.dumps(json.loads(path.read_text()) | ended))
    other = build.start(root, "replay")
    out = words(printed(other, pages.terminal, "model-compile"))
    assert "✗ first-steps on" in out
    assert "✓" not in out
    assert "ended otherwise than declared: signal" in str(other.problems[0])


def test_chart_and_table(site: build.Build) -> None:
    out = printed(site, pages.chart, ID, ["step_ms"], device="cpu", title="T", caption="c")
    assert out.count("<svg") == 1
    assert "4,000" in out
    out = printed(site, pages.table, ID, "breaks")
    assert out.count("<table") == 2
    assert "&lt;i&gt;print&lt;/i&gt;" in out


def test_timeline_and_trace(site: build.Build) -> None:
    out = printed(site, pages.timeline, TRACED, "timeline", title="Steps", caption="<c>")
    assert out.count("<svg") == 1
    assert ">Steps, CPU · " in out
    assert "&lt;c&gt;" in out
    out = printed(site, pages.trace, TRACED, device="cpu")
    name = r"traced\.steps-?\w*\.\w+\.json\.gz"
    [file] = re.findall(rf'href="\.\./\.\./records/cpu/model-compile/({name})"', out)
    assert f">{file}</a> (trace, " in out
    assert re.search(r'<div class="lab-trace__open" hidden>.*Open in Perfetto', out)
    assert 'role="status"' in out
    assert not site.problems


def test_results_and_cli(site: build.Build) -> None:
    assert "21.5" in words(printed(site, pages.results))
    assert "usage: study [-h]" in words(printed(site, pages.cli, "study"))
    site.mode = "off"
    assert printed(site, pages.results) == ""
    assert not site.problems


@pytest.mark.parametrize(
    ("call", "arguments", "options"),
    [
        (pages.show, ("model-compile/nothing",), {}),
        (pages.show, (ID,), {"opne": True}),
        (pages.show, (), {}),
        (pages.show, (3,), {}),
        (pages.block, ("model-compile",), {"notes": {"nowhere": ""}}),
        (pages.block, ("softcap",), {}),
        (pages.terminal, ("softcap",), {}),
        (pages.header, ("<b>",), {}),
        (pages.chart, (ID, "nothing"), {}),
        (pages.table, (ID, "nothing"), {}),
        (pages.source, ("gone.py",), {}),
        (pages.timeline, (ID, "breaks"), {}),
        (pages.trace, (ID,), {"device": "cpu"}),
        (pages.trace, (TRACED,), {"device": "h200"}),
        (pages.cli, ("studdy",), {}),
        (pages.cli, ("train_gpt.py",), {}),
    ],
)
def test_no_mistake_ends_the_page(
    site: build.Build, call: Callable[..., None], arguments: tuple, options: dict
) -> None:
    out = printed(site, call, *arguments, **options)
    assert len(site.problems) == 1
    line = str(site.problems[0])
    assert line.startswith("docs/blocks/model-compile.md:7: ")
    assert "\n" not in line
    assert "This page has a problem" in out
    assert "<b>" not in out


def test_metric_fields(site: build.Build) -> None:
    said = {
        field: text.unescape(
            re.sub("<[^>]*>", "", macro(site, f'metric("{ID}", "eager_ms", "cpu", "{field}")'))
        )
        for field in prose.FIELDS
    }
    assert said == {
        "value": "21.5\u00a0ms",
        "low": "20.8",
        "high": "22.2",
        "n": "4",
        "spread": "20.8 to 22.2\u00a0ms",
        "unit": "ms",
        "bare": "21.5",
    }
    assert not site.problems


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ('code("1/0")', "has no value"),
        ('code("2.0**9999")', "has no value"),
        ('code("9**9**9")', "has no value"),
        ('code("Config.width", file="docs/index.md")', "not valid Python"),
        (f'metric("{ID}", 1/0)', "literals, not `1 / 0`"),
        (f'metric("{ID}", "graphs", digits=9**9**9)', "literals, not"),
        (f'claim("{ID}", 5)', "text is 5, of a wrong type"),
        (f'claim("{ID}", false)', "literals, not `false`"),
        (f'claim("{ID}", "graphs == 2") if false', "parse"),
        (f'claim("{ID}", "graphs == 2") if False else ""', "one call and nothing else"),
        (f'claim("{ID}", "graphs == 2") and ""', "one call and nothing else"),
        ("claim", "one call and nothing else"),
        ("metric()", "missing a required argument"),
    ],
)
def test_a_macro_is_one_call_with_literals(site: build.Build, expression: str, said: str) -> None:
    macro(site, expression)
    [problem] = site.problems
    assert said in problem.what


def test_digits_of_a_macro_are_bounded(site: build.Build) -> None:
    assert "21.5" in macro(site, f'metric("{ID}", "eager_ms", digits=99999999999)')


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (f'one\n{{{{ metric("{ID}", "graphs")\ntwo {{{{ code("Config.width") }}}}', [2]),
        ('`{{% claim("x") %}}`'.replace("{{", "{").replace("}}", "}"), [1]),
        ("`{'a': {'b': 1}}` and {.class}", []),
        ("`measure.metric('a', 1)`", []),
    ],
)
def test_pieces_of_macros_are_named(site: build.Build, text: str, lines: list[int]) -> None:
    prose.expand(text, 1, site)
    assert [one.line for one in site.problems] == lines


def test_macros_in_backticks_are_plain(site: build.Build) -> None:
    out = prose.expand(
        '`width={{ code("Config.micro_tokens") }}` and {{ code("Config.width") }}', 1, site
    )
    assert out.startswith("`width=16,384` and <span")


def test_macro_text_is_inert() -> None:
    assert prose.inert("a*b_c`d`|<e>[f]") == (
        "a&#42;b&#95;c&#96;d&#96;&#124;&#60;e&#62;&#91;f&#93;"
    )


def test_a_claim_on_a_line_of_its_own_does_not_end_its_paragraph(site: build.Build) -> None:
    claimed = f'{{{{ claim("{ID}", "compiled_ms < eager_ms") }}}}'
    assert prose.expand(f"It is fast.\n    {claimed}\nVery.\n", 1, site) == "It is fast.\nVery.\n"
    assert prose.expand(f"Fast{claimed}.\n", 1, site) == "Fast.\n"


def test_provenance_and_claims(site: build.Build) -> None:
    assert "NVIDIA H200" in macro(site, f'provenance("{ID}", device="h200")')
    assert macro(site, f'claim("{ID}", "compiled_ms < eager_ms")') == ""
    assert not site.problems
    assert macro(site, f'claim("{ID}", "eager_ms < compiled_ms", device="h200")') == ""
    assert "on h200: eager_ms < compiled_ms (here 20.75..22.25 against 10.75..12.25)" in str(
        site.problems[0]
    )
