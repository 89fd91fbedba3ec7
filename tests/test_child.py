"""The child by itself; how runs end is tested through the runner, in test_run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from conftest import Repository

from fba_lab.example import ROOT


def events(repo: Repository, text: str, tmp_path: Path) -> list[dict[str, Any]]:
    file, result = repo.write("program.py", text), tmp_path / "result.jsonl"
    env = os.environ | {"LAB_RESULT": str(result), "PYTHONPATH": f"{ROOT}:{repo.root}"}
    command = [sys.executable, "-m", "fba_lab.child", str(file), "20", "0.3"]
    subprocess.run(command, env=env, check=True, cwd=tmp_path)
    return [json.loads(line) for line in result.read_text().splitlines()]


def test_events_of_a_good_run(repo: Repository, tmp_path: Path) -> None:
    end, last = events(repo, "x = 1", tmp_path)
    assert end == {"event": "end", "error": None, "gpu_bytes": None}
    assert (last["event"], last["code"], last["timeout"], last["left"]) == ("exit", 0, False, [])
    assert last["seconds"] > 0 and last["peak_bytes"] > 1_000_000


def test_frames_and_notes(repo: Repository, tmp_path: Path) -> None:
    text = "def f():\n    e = KeyError('k')\n    e.add_note('a note')\n    raise e\nf()\n"
    end, last = events(repo, text, tmp_path)
    assert (end["error"]["type"], end["error"]["message"]) == ("KeyError", "'k'\na note")
    assert end["error"]["frames"][-1] == {
        "file": str(repo.root / "snippets" / "program.py"),
        "line": 4,
        "line_text": "raise e",
    }
    assert last["code"] == 1


def test_runs_as_the_reader_would(repo: Repository, tmp_path: Path) -> None:
    text = """
import inspect, multiprocessing, sys
def double(x):
    return 2 * x
if __name__ == "__main__":
    assert sys.argv == [__file__] and sys.path[0] == __file__.rpartition("/")[0]
    assert "return 2 * x" in inspect.getsource(double)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(double, [3]) == [6]
        pool.close()
        pool.join()
"""
    end, last = events(repo, text, tmp_path)
    assert (end["error"], last["code"], last["left"]) == (None, 0, [])
