from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from conftest import Repository

from fba_lab import record, recorder
from fba_lab.example import ROOT, discover
from fba_lab.recorder import NothingToRecord, Result, record_all, run_missing
from fba_lab.run import run_example

COMMAND = [sys.executable, "-m", "fba_lab", "record"]


def recording(repo: Repository, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, "--root", str(repo.root), "--device", "cpu", *options],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def records(root: Path) -> list[str]:
    base = root / record.RECORDS
    return sorted(file.relative_to(base).as_posix() for file in base.glob("*/*/*.json"))


def loaded(repo: Repository, name: str) -> record.Record:
    found = record.load(discover(repo.root)[f"model-compile/{name}"], "cpu", repo.root)
    assert found is not None
    return found


@pytest.fixture
def two(repo: Repository) -> Repository:
    repo.example("one", "print('one')", main=True)
    repo.example("two", "train_gpt.fails(1)", raises=("ValueError", "cannot"))
    return repo


def test_a_tree_copied_without_its_history_takes_the_commit_from_the_environment(
    repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_COMMIT", "abc1234")
    monkeypatch.setenv("LAB_DIRTY", "0")
    subprocess.run(["git", "init", "-q", repo.root], check=True)
    assert recorder.origin(repo.root) == ("abc1234", False)


def test_writes_a_record_for_each(two: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_COMMIT", "abc1234")
    monkeypatch.setenv("LAB_DIRTY", "1")
    seen: list[Result] = []
    results = record_all(two.root, device_name="cpu", report=seen.append)
    assert [(one.example.id, one.status, one.problem) for one in results] == [
        ("model-compile/one", "ok", None),
        ("model-compile/two", "expected-error", None),
    ]
    assert seen == results
    found = loaded(two, "one")
    assert found.text == "one\n"
    assert (found.provenance["commit"], found.provenance["dirty"]) == ("abc1234", True)
    assert set(found.provenance) == {
        "device_name",
        "device_count",
        "driver",
        "cuda",
        "torch",
        "triton",
        "python",
        "os",
        "date",
        "commit",
        "dirty",
    }
    time.strptime(found.provenance["date"], "%Y-%m-%dT%H:%M:%SZ")


def test_a_bad_ending_is_recorded_and_the_others_stay(two: Repository) -> None:
    record_all(two.root, device_name="cpu")
    two.example("one", "import os\nos._exit(3)", main=True)
    results = record_all(two.root, device_name="cpu")
    assert [one.problem for one in results] == [
        "exit: SystemExit: exit code 3, without a Python exit",
        None,
    ]
    assert loaded(two, "two").status == "expected-error"


def test_only_stale_and_out(two: Repository, tmp_path: Path) -> None:
    record_all(two.root, device_name="cpu", only="*/one")
    assert records(two.root) == ["cpu/model-compile/one.json"]
    results = record_all(two.root, device_name="cpu", stale=True, out=tmp_path / "out")
    assert [one.example.name for one in results] == ["two"]
    assert (tmp_path / "out" / "cpu" / "model-compile" / "two.json").is_file()
    assert records(two.root) == ["cpu/model-compile/one.json"]
    record_all(two.root, device_name="cpu", stale=True)
    assert record_all(two.root, device_name="cpu", stale=True) == []


def test_several_at_a_time(two: Repository) -> None:
    for number in range(3):
        two.example(f"more_{number}", "print(1)")
    assert len(record_all(two.root, device_name="cpu", jobs=3)) == 5
    assert len(records(two.root)) == 5


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {"only": "model-compile/on"},
            "matches 'model-compile/on'; did you mean model-compile/one",
        ),
        ({"only": "*/big"}, "only heavy examples fit (model-compile/big); add --heavy"),
    ],
)
def test_nothing_to_record(two: Repository, options: dict[str, str], expected: str) -> None:
    two.example("big", heavy=True)
    with pytest.raises(NothingToRecord) as caught:
        record_all(two.root, device_name="cpu", **options)
    assert expected in str(caught.value)
    assert record_all(two.root, device_name="cpu", only="*/big", heavy=True)[0].status == "ok"


def test_recording_ends_what_was_pending(two: Repository) -> None:
    path = two.root / record.RECORDS / "pending.json"
    path.parent.mkdir(parents=True)
    entry = {
        "example": "model-compile/one",
        "device": "cpu",
        "reason": "later",
        "date": "2026-11-30",
    }
    path.write_text(json.dumps([entry]))
    record_all(two.root, device_name="cpu", out=two.root / "elsewhere")
    assert record.pending(two.root) == [entry]
    record_all(two.root, device_name="cpu")
    assert record.pending(two.root) == []


def test_run_missing_keeps_results_locally(two: Repository) -> None:
    record_all(two.root, device_name="cpu", only="*/one")
    assert [one.example.name for one in run_missing(two.root)] == ["two"]
    assert records(two.root) == ["cpu/model-compile/one.json"]
    state = record.state(discover(two.root)["model-compile/two"], "cpu", two.root, local=True)
    assert (state.status, state.local) == ("fresh", True)
    assert run_missing(two.root) == []


def test_an_edit_during_a_run_shows_as_stale(repo: Repository) -> None:
    path = repo.root / "snippets" / "train_gpt.py"
    body = f"import pathlib\npath = pathlib.Path({str(path)!r})\n"
    body += "path.write_text(path.read_text().replace('STEPS = 2', 'STEPS = 3'))\n"
    body += "print(train_gpt.STEPS)"
    one = repo.example("one", body, main=True)
    record_all(repo.root, device_name="cpu")
    assert record.state(one, "cpu", repo.root).reasons == ["train_gpt.STEPS changed"]


def test_commit_is_that_of_git(two: Repository) -> None:
    def git(*arguments: str) -> None:
        config = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(
            ["git", "-C", two.root, *config, *arguments], check=True, capture_output=True
        )

    assert recorder.origin(two.root) == (None, None)
    (two.root / ".gitignore").write_text("__pycache__/\n")
    git("init")
    git("add", ".")
    git("commit", "-m", "all")
    commit, dirty = recorder.origin(two.root)
    assert len(commit) == 40 and dirty is False
    record_all(two.root, device_name="cpu")
    assert recorder.origin(two.root) == (commit, False)  # new records do not make it dirty
    two.edit("train_gpt.py", "SIZE = 3", "SIZE = 4")
    assert recorder.origin(two.root) == (commit, True)


@pytest.mark.parametrize(("name", "value"), [("LAB_COMMIT", "/etc/x"), ("LAB_DIRTY", "yes")])
def test_bad_commit_from_outside(
    two: Repository, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=f"{name} is '{value}'; give"):
        recorder.origin(two.root)


@pytest.mark.parametrize(
    ("number", "jobs"), [(signal.SIGINT, 1), (signal.SIGINT, 2), (signal.SIGTERM, 1)]
)
def test_interrupted_recording_leaves_old_records_whole(
    two: Repository, tmp_path: Path, number: signal.Signals, jobs: int
) -> None:
    record_all(two.root, device_name="cpu")
    before = {name: (two.root / record.RECORDS / name).read_bytes() for name in records(two.root)}
    note = tmp_path / "pid"
    body = f"import os, time\nopen({str(note)!r}, 'w').write(str(os.getpid()))\ntime.sleep(60)"
    two.example("two", body)
    process = recording(two, "--jobs", str(jobs), "--only", "*/two")
    wait_for(lambda: note.exists() and note.read_text())
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert errors == "fba_lab: interrupted; records that were not reached are as before\n"
    assert {name: (two.root / record.RECORDS / name).read_bytes() for name in before} == before
    wait_for(lambda: not Path("/proc", note.read_text()).exists())


def test_killed_recording_leaves_whole_records(repo: Repository) -> None:
    body = """
    import os
    for name in "abc":
        open(name + ".svg", "w").write(name * 100_000 + str(os.times()))
        measure.artefact(name + ".svg", "svg")
    """
    one = repo.example("one", body, main=True)
    record_all(repo.root, device_name="cpu")
    for delay in (0.1, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5):
        process = recording(repo)
        time.sleep(delay)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=30)
        found = record.load(one, "cpu", repo.root)
        folder = record.path(one, "cpu", repo.root).parent
        sizes = [(folder / row["file"]).stat().st_size for row in found.artefacts]
        assert len(sizes) == 3 and sizes == [row["bytes"] for row in found.artefacts]
    record_all(repo.root, device_name="cpu")
    assert len(list(folder.glob("one.*"))) == 4  # what the killed ones left has gone


def wait_for(condition: object) -> None:
    end = time.monotonic() + 15
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.02)


def test_nothing_is_recorded_under_quick(repo: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    one = repo.example("one", "print(measure.rounds(5))", main=True)
    monkeypatch.setenv("LAB_QUICK", "1")
    for make in (partial(record_all, device_name="cpu"), run_missing):
        with pytest.raises(ValueError, match="LAB_QUICK is set"):
            make(repo.root)
    assert run_example(one, "cpu").output == b"5\n"  # it doesn't leak into a run either
    assert run_example(one, "cpu", quick=True).output == b"1\n"


def test_without_torch_no_record_is_replaced(
    two: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    record_all(two.root, device_name="cpu")
    before = {name: (two.root / record.RECORDS / name).read_text() for name in records(two.root)}
    two.edit("train_gpt.py", "import math\n", "import math\n\nimport torch\n")
    monkeypatch.setattr(recorder, "find_spec", lambda name: None)
    with pytest.raises(NothingToRecord, match=r"torch is not installed; run pip install"):
        record_all(two.root, device_name="cpu")
    assert before == {name: (two.root / record.RECORDS / name).read_text() for name in before}
