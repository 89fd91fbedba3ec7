"""Charts are drawn once, carry their numbers, and fit both colour schemes."""

import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from fba_lab import chart

STEPS = {
    "name": "cold <b> $x$ $y$",
    "x": [0, 1, 2],
    "y": [15000.0, 67.0, 66.0],
    "x_label": "step",
    "y_label": "ms",
    "kind": "line",
}
WARM = STEPS | {"name": "warm", "y": [1500.0, 66.0, 67.0]}


def svg(out: str) -> str:
    return out[out.index("<svg") : out.index("</svg>") + 6]


@pytest.mark.parametrize("kind", ["line", "bar", "step"])
def test_drawing(tmp_path: Path, kind: str) -> None:
    series = [STEPS | {"kind": kind}, WARM | {"kind": kind}]
    out = chart.figure(series, title="First & steps", caption="<i>", root=tmp_path)
    drawing = svg(out)
    ET.fromstring(drawing)  # well formed
    assert "#0a0" not in drawing
    assert "var(--lab-line-2)" in drawing
    assert "<title" in drawing
    assert "<desc" in drawing
    assert "log scale" in drawing
    assert "cold &lt;b&gt; $x$ $y$" in drawing  # text stays text, and only text
    assert "<style" not in drawing
    assert "font-family" not in drawing
    assert "DOCTYPE" not in out
    assert "<i>" not in out


def test_ids_belong_to_the_drawing(tmp_path: Path) -> None:
    one = svg(chart.figure([STEPS], title="a", caption="", root=tmp_path))
    two = svg(chart.figure([WARM], title="b", caption="", root=tmp_path))
    ids = [set(re.findall(r'\sid="([^"]*)"', drawing)) for drawing in (one, two)]
    assert not ids[0] & ids[1]
    used = set(re.findall(r'(?:href="#|url\(#)([^")]*)', one))
    assert used <= ids[0]


def test_numbers_are_a_table_underneath(tmp_path: Path) -> None:
    out = chart.figure([STEPS, WARM | {"x": [0, 1, 3]}], title="a", caption="", root=tmp_path)
    assert "15,000" in out
    assert out.count("<tr>") == 1 + 4  # steps 0 to 3
    assert "cold &lt;b&gt;" in out


def test_cached_by_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = chart.figure([STEPS], title="a", caption="", root=tmp_path)
    files = list((tmp_path / ".cache/charts").iterdir())
    assert [file.suffix for file in files] == [".svg"]
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # importing it now would raise
    assert chart.figure([STEPS], title="a", caption="", root=tmp_path) == first
    with pytest.raises(ImportError):
        chart.figure([WARM], title="a", caption="", root=tmp_path)


def test_small_differences_are_not_blown_up(tmp_path: Path) -> None:
    flat = STEPS | {"y": [100.0, 101.0, 102.0]}
    drawing = svg(chart.figure([flat], title="a", caption="", root=tmp_path))
    assert ">0</text>" in drawing
    assert "log scale" not in drawing
