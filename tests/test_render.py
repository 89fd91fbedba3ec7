"""Whatever a run says is only text on a page."""

import html
import re

import pytest

from fba_lab import render

EVIL = (
    '<script>alert(1)</script>\n```\n--8<-- "mkdocs.yml"\n{{ x }}\n\x1b[31mred\x1b[0m\x07\x08&amp;'
)


def test_ansi_is_inert_and_coloured() -> None:
    out = render.ansi(EVIL)
    assert "<script" not in out
    assert "&lt;script&gt;" in out
    assert '<span class="t-red">red</span>' in out
    assert "&amp;amp;" in out
    assert not re.search(r"[\x00-\x08\x0b-\x1f]", out)


@pytest.mark.parametrize(
    ("code", "class_"),
    [("1", "t-bold"), ("38;5;196", "t-red"), ("38;2;0;250;0", "t-green"), ("94", "t-blue")],
)
def test_every_kind_of_colour_has_a_class(code: str, class_: str) -> None:
    assert class_ in render.ansi(f"\x1b[{code}mx\x1b[0m")


def test_progress_bars_leave_their_last_state() -> None:
    assert render.ansi("10%\r100%") == "100%"


def test_code_has_true_lines_and_whole_spans() -> None:
    source = '\n\ndef f():\n    """a\n    b"""\n    return "x<y"\n'
    lines = render.highlight(source)
    assert len(lines) == 6
    assert all(line.count("<span") == line.count("</span>") for line in lines)
    out = render.code(lines[2:], start=3, anchor="code", label="f", marks={6: 1})
    assert re.findall(r'id="(code-\d+)"', out) == ["code-3", "code-4", "code-5", "code-6"]
    assert 'href="#code-6-note-1"' in out
    text = html.unescape(re.sub("<[^>]*>", "", out.replace('"lab-mark"', "")))
    assert 'return "x<y"' in text


@pytest.mark.parametrize("mark", ["\f", "\x1c", "\x85", "\u2028"])
def test_only_line_ends_of_python_end_a_line(mark: str) -> None:
    lines = render.highlight(f"x = 1\n# a{mark}b\ny = 2\n")
    assert len(lines) == 3
    assert ">y<" in lines[2]


def test_attributes_are_escaped() -> None:
    assert render.tag("p", "x", title='"><script>') == '<p title="&quot;&gt;&lt;script&gt;">x</p>'
    assert render.tag("p", hidden=True, id=None, lang=False) == "<p hidden></p>"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "3"),
        (10**20, "100,000,000,000,000,000,000"),
        (67.834, "67.83"),
        (0.0012345, "0.001234"),
        (15234.4, "15,234"),
        (True, "True"),
    ],
)
def test_number(value: float, text: str) -> None:
    assert render.number(value) == text


def test_digits_are_bounded() -> None:
    assert render.number(0.5, 99_999_999_999) == render.number(0.5, -3) == "0.5"


def test_tables_escape_cells_and_align_numbers() -> None:
    out = render.table(["<a>"], [["<b>"], [1.5], [None]], caption="c", label="l")
    assert "&lt;a&gt;" in out
    assert "&lt;b&gt;" in out
    assert '<td class="num">1.5</td>' in out


def test_a_single_value_shows_no_spread() -> None:
    entry = {"name": "graphs", "unit": "", "n": 1, "value": 3, "low": 3, "high": 3}
    assert "–" not in render.metrics([entry], "m")


def test_error_keeps_layout() -> None:
    frames = [("snippets/x.py:3, in f", "#x-3", "  return 1 / 0 < 2")]
    out = render.error("ZeroDivisionError", "by <zero>\n  aligned", frames, "e")
    assert "by &lt;zero&gt;\n  aligned" in out
    assert '<a href="#x-3">snippets/x.py:3, in f</a>' in out
    assert "return 1 / 0 &lt; 2" in out


def test_a_column_without_a_name_has_no_head() -> None:
    out = render.table(["", "n"], [["a", 1]], caption="c", label="l")
    assert out.count("<th") - out.count("<thead") == 1


def test_a_long_name_wraps_so_that_the_numbers_beside_it_stay_in_sight() -> None:
    rows = [["fused_" * 20, 1.5], ["copy", 2.5]]
    html = render.table(["kernel", "ms"], rows, caption="c", label="l")
    assert '<td class="long">fused_' in html and '<td class="long">copy' in html
    assert html.count('class="num"') == 3
    assert "long" not in render.table(["kernel"], [["copy"]], caption="c", label="l")
