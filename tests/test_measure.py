from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import pytest

from fba_lab import measure


@pytest.fixture
def events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    path = tmp_path / "result.jsonl"
    monkeypatch.setenv("LAB_RESULT", str(path))
    return lambda: [json.loads(line) for line in path.read_text().splitlines()]


def test_metric_is_median_and_inclusive_quartiles(events: Any) -> None:
    measure.metric("step_ms", [4.0, 1.0, 2.0, 3.0, 5.0], "ms", better="lower")
    measure.metric("graphs", 3, "graphs")
    assert events() == [
        {
            "event": "metric",
            "name": "step_ms",
            "unit": "ms",
            "n": 5,
            "value": 3.0,
            "low": 2.0,
            "high": 4.0,
            "better": "lower",
        },
        {
            "event": "metric",
            "name": "graphs",
            "unit": "graphs",
            "n": 1,
            "value": 3,
            "low": 3,
            "high": 3,
        },
    ]


@pytest.mark.parametrize("unit", ["ms", "s", "us", "tokens/s", "GB/s"])
def test_one_sample_is_no_timing(events: Any, unit: str) -> None:
    for single in (3.0, [3.0]):
        with pytest.raises(ValueError, match="one sample is not a timing"):
            measure.metric("a", single, unit)


@pytest.mark.parametrize("bad", [[], [1.0, math.nan], [math.inf, 1.0]])
def test_bad_samples(events: Any, bad: list[float]) -> None:
    with pytest.raises(ValueError, match="metric 'a'"):
        measure.metric("a", bad, "ms")


def test_tensors_and_arrays_are_numbers(events: Any) -> None:
    numpy = pytest.importorskip("numpy")
    measure.metric("loss", numpy.float32(1.5), "")
    measure.metric("ms", numpy.array([1.0, 2.0]), "ms")
    assert [(one["value"], one["n"]) for one in events()] == [(1.5, 1), (1.5, 2)]


def test_series_and_table(events: Any) -> None:
    measure.series("s", range(2), [1.0, None], x_label="step", y_label="ms", kind="step")
    measure.series("b", ["eager", "compiled"], [1, 2], x_label="", y_label="ms", kind="bar")
    measure.table("t", ("a", "b"), [("x", 1), (None, True)])
    line, bars, table = events()
    assert (line["x"], line["y"], line["kind"]) == ([0, 1], [1.0, None], "step")
    assert bars["x"] == ["eager", "compiled"]
    assert (table["columns"], table["rows"]) == (["a", "b"], [["x", 1], [None, True]])


def test_wrong_series_and_tables() -> None:
    with pytest.raises(ValueError, match="1 x and 2 y"):
        measure.series("s", [1], [1, 2], x_label="", y_label="")
    with pytest.raises(ValueError, match="one of line, bar, step"):
        measure.series("s", [1], [1], x_label="", y_label="", kind="pie")
    with pytest.raises(ValueError, match="1 cells for 2 columns"):
        measure.table("t", ["a", "b"], [["x"]])
    with pytest.raises(ValueError, match="no text, number, boolean or None"):
        measure.table("t", ["a"], [[object()]])
    with pytest.raises(ValueError, match="not a finite number"):
        measure.table("t", ["a"], [[math.nan]])


def test_artefacts_are_checked(events: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not there"):
        measure.artefact(tmp_path / "a.svg", "svg")
    with pytest.raises(ValueError, match="must be one of svg, png"):
        measure.artefact(tmp_path / "a.svg", "gif")
    big = tmp_path / "big.txt"
    big.write_bytes(b"x" * (measure.ARTEFACT_LIMIT + 1))
    with pytest.raises(ValueError, match="2,097,153 bytes; 2,097,152 may be kept"):
        measure.artefact(big, "text")
    big.write_bytes(b"x")
    measure.artefact(big, "text")
    assert events() == [{"event": "artefact", "path": str(big), "kind": "text"}]


def test_without_a_runner_results_are_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LAB_RESULT", raising=False)
    measure.metric("step_ms", [1.0, 2.0, 3.0], "ms")
    measure.metric("bytes", 1234567, "bytes")
    measure.table("edits", ["edit", "graphs"], [["none", 1], ["print", 12]])
    assert capsys.readouterr().out == (
        "step_ms  2 ms  (1.5 to 2.5, n=3)\n"
        "bytes  1,234,567 bytes\n"
        "edits\n"
        "  edit   graphs\n"
        "  none   1\n"
        "  print  12\n"
    )


def test_timed_gives_milliseconds_per_call() -> None:
    calls: list[int] = []
    times = measure.timed(lambda: calls.append(1), warmup=2, repeats=3, device="cpu")
    assert len(times) == 3 and len(calls) == 5 and all(one >= 0 for one in times)


def test_device_is_what_the_runner_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_DEVICE", "cuda")
    assert measure.device() == "cuda"
    monkeypatch.setenv("LAB_DEVICE", "tpu")
    with pytest.raises(ValueError, match="LAB_DEVICE is 'tpu'"):
        measure.device()


def test_data_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_ROOT", str(tmp_path))
    monkeypatch.delenv("LAB_DATA", raising=False)
    digest = hashlib.sha256(b"tokens").hexdigest()
    entry = {"files": {"a.bin": {"sha256": digest, "tokens": 3}}, "prepare": "python make.py"}
    (tmp_path / "snippets").mkdir()
    (tmp_path / "snippets" / "data.json").write_text(json.dumps({"sotu": entry}))
    with pytest.raises(ValueError, match=r"no data set 'sot' in .*; it has sotu"):
        measure.data("sot")
    with pytest.raises(FileNotFoundError, match=r"a.bin is missing; run: python make.py"):
        measure.data("sotu")
    folder = tmp_path / "data" / "sotu"
    folder.mkdir(parents=True)
    (folder / "a.bin").write_bytes(b"other")
    with pytest.raises(ValueError, match=r"a.bin has sha256 .*; run: python make.py"):
        measure.data("sotu")
    (folder / "a.bin").write_bytes(b"tokens")
    assert measure.data("sotu") == folder
    monkeypatch.setenv("LAB_DATA", str(tmp_path / "elsewhere"))
    with pytest.raises(FileNotFoundError):
        measure.data("sotu")


def test_names_and_range_are_checked() -> None:
    with pytest.raises(ValueError, match="metric: name is 5; give a text"):
        measure.metric(5, 1, "")  # type: ignore[arg-type]
    for samples in (10**400, [1e308, 1.7e308, 1.7e308]):
        with pytest.raises((OverflowError, ValueError)):
            measure.metric("a", samples, "")


def test_quick_cuts_repeats_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.delenv("LAB_QUICK", raising=False)
    assert [measure.rounds(count) for count in (1, 2, 30)] == [1, 2, 30]
    assert len(measure.timed(lambda: calls.append(0), warmup=3, repeats=5, device="cpu")) == 5
    monkeypatch.setenv("LAB_QUICK", "1")
    assert [measure.rounds(count) for count in (1, 2, 30)] == [1, 1, 1]
    assert len(measure.timed(lambda: calls.append(0), warmup=3, repeats=5, device="cpu")) == 1
    assert len(calls) == 12
    measure.metric("taken", [1.0], "ms")  # nothing is recorded, so it needn't be a timing
