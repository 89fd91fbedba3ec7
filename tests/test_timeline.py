"""Timelines draw each segment where it was, and say the rest in words and totals."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from fba_lab import timeline
from fba_lab.build import LabProblem

ROWS = [
    ["GPU", "matmul", 0, 6.0],
    ["copies", "<b>to host</b>", 2.0, 1.0],
    ["GPU", "norm", 6.0, 0.5],
    ["GPU", "matmul", 8.0, 2.0],
]


def segments(rows: list[list]) -> list[timeline.Segment]:
    return timeline.segments({"columns": timeline.COLUMNS, "rows": rows}, "table 't'")


def svg(out: str) -> str:
    return out[out.index("<svg") : out.index("</svg>") + 6]


def boxes(drawing: str, fill: str) -> list[list[float]]:
    """Return left, right, top and bottom of each segment of a fill, in units of the drawing."""
    found = re.findall(rf'<path d="([^"]*)"[^>]*fill: {fill}', drawing)
    shape = max(found, key=lambda path: path.count("z"), default="")
    rectangles = []
    for part in shape.split("z")[:-1]:
        points = [float(word) for word in re.findall(r"[\d.]+", part)]
        xs, ys = points[::2], points[1::2]
        rectangles.append([min(xs), max(xs), min(ys), max(ys)])
    return rectangles


def test_segments_are_where_they_were(tmp_path: Path) -> None:
    drawing = svg(timeline.figure(segments(ROWS), title="T", caption="", root=tmp_path))
    ET.fromstring(drawing)
    matmul = boxes(drawing, r"var\(--lab-line-1\)")
    [[left, middle, top, _], [start, right, again, _]] = matmul
    unit = (right - left) / 10  # 0 to 10 ms
    assert middle - left == pytest.approx(6 * unit, abs=0.01)
    assert start - left == pytest.approx(8 * unit, abs=0.01)
    assert top == again
    [[copy, _, lower, _]] = boxes(drawing, r"url\(#")  # the first with a hatch
    assert copy - left == pytest.approx(2 * unit, abs=0.01)
    assert lower > top  # rows stand in the order they first occur in, from the top


def test_says_what_it_shows(tmp_path: Path) -> None:
    out = timeline.figure(segments(ROWS), title="One & step", caption="<i>", root=tmp_path)
    drawing = svg(out)
    assert re.search(r"<title[^>]*>One &amp; step</title>", drawing)
    assert "GPU: 8.5 ms in all, most of it matmul" in drawing
    assert "matmul: 8 ms" in drawing
    assert "&lt;b&gt;to host&lt;/b&gt;: 1 ms" in drawing
    assert "url(#c" in drawing  # a second sign beside the colour
    assert "#0a0" not in drawing
    assert "<b>" not in out
    assert "<i>" not in out


def test_totals_are_underneath_by_row_and_name() -> None:
    table = re.sub(r"<[^>]*>", " ", timeline.totals(segments(ROWS), "label"))
    table = re.sub(r"\s+", " ", table)
    assert table.endswith("GPU matmul 2 8 GPU norm 1 0.5 copies &lt;b&gt;to host&lt;/b&gt; 1 1 ")


def test_names_without_a_colour_of_their_own_share_one() -> None:
    rows = [["GPU", f"kernel {at}", at, 10 - at] for at in range(8)]
    made = timeline.groups(segments(rows))
    assert [group.label for group in made] == [
        "kernel 0",
        "kernel 1",
        "kernel 2",
        "kernel 3",
        "4 others",
    ]
    assert made[-1].total == 6 + 5 + 4 + 3
    assert [group.label for group in timeline.groups(segments(rows[:5]))][-1] == "kernel 4"


def test_hundreds_of_segments_stay_light(tmp_path: Path) -> None:
    rows = [["GPU", f"kernel {at % 9} {'x' * 90}", at / 3, 0.3] for at in range(600)]
    drawing = svg(timeline.figure(segments(rows), title="T", caption="", root=tmp_path))
    assert len(drawing) < 120_000
    texts = re.findall(r"<text[^>]*>([^<]*)", drawing)
    assert max(map(len, texts)) < 80  # the legend cuts long names; the table has them whole


def test_drawn_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = timeline.figure(segments(ROWS), title="T", caption="", root=tmp_path)
    monkeypatch.setattr(timeline, "_draw", None)
    assert timeline.figure(segments(ROWS), title="T", caption="", root=tmp_path) == first


@pytest.mark.parametrize(
    ("columns", "rows", "said"),
    [
        (["row", "name", "start_ms"], [], "has the columns"),
        (timeline.COLUMNS, [], "has no segments"),
        (timeline.COLUMNS, [["GPU", "matmul", 0, -1]], "is no segment"),
        (timeline.COLUMNS, [["GPU", None, 0, 1]], "is no segment"),
        (timeline.COLUMNS, [["GPU", "matmul", True, 1]], "is no segment"),
    ],
)
def test_another_table_is_a_problem(columns: list, rows: list, said: str) -> None:
    with pytest.raises(LabProblem, match=f"table 't'.*{said}"):
        timeline.segments({"columns": columns, "rows": rows}, "table 't'")


def test_segments_of_no_length_at_all(tmp_path: Path) -> None:
    out = timeline.figure(segments([["GPU", "event", 0, 0]]), title="T", caption="", root=tmp_path)
    ET.fromstring(svg(out))


@pytest.mark.parametrize("time", [1e308, 10**400, float("inf"), float("nan"), -1, None, "1", True])
def test_what_is_no_time_is_refused(time: object) -> None:
    with pytest.raises(LabProblem, match="is no segment"):
        segments([["GPU", "matmul", 0, time]])
