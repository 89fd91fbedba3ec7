from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Repository

from fba_lab import recorder, resume

HEAVY = """
def first() -> int:
    with open({log!r}, "a") as file:
        file.write("made ")
    return 1

def second() -> int:
    if not os.path.exists({flag!r}):
        raise RuntimeError("cut off")
    return 2

measure.metric("sum", resume.part("first", first) + resume.part("second", second), "")
"""


def test_without_a_recording_every_part_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAB_KEEP", raising=False)
    made: list[int] = []
    for _ in range(2):
        assert resume.part("a", lambda: made.append(1) or (1, 2)) == [1, 2]
    assert made == [1, 1]


def test_a_part_is_made_once_and_half_a_file_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_KEEP", str(tmp_path))
    (tmp_path / "a.part").write_text('{"half')
    assert resume.part("a", lambda: {"x": 1}) == {"x": 1}
    assert resume.part("a", lambda: 1 / 0) == {"x": 1}


def test_a_recording_that_was_cut_off_goes_on_where_it_was(
    repo: Repository, tmp_path: Path
) -> None:
    flag, log = tmp_path / "flag", tmp_path / "log"
    body = "import os\n\nfrom fba_lab import resume\n" + HEAVY.format(log=str(log), flag=str(flag))
    repo.example("heavy", body, heavy=True, main=True)

    def record() -> str:
        (result,) = recorder.record_all(repo.root, only="*/heavy", heavy=True, device_name="cpu")
        return result.status

    assert record() == "error"
    flag.touch()
    assert record() == "ok"
    assert log.read_text() == "made "
    assert not list((repo.root / resume.FOLDER).rglob("*.json")), "kept parts would outlive the key"


def test_a_part_that_cannot_be_read_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_KEEP", str(tmp_path))
    for content in (b"", b"{", b"\xff"):
        (tmp_path / "a.json").write_bytes(content)
        assert resume.part("a", lambda: 1) == 1
        assert (tmp_path / "a.json").read_text() == "1"
    with pytest.raises(ValueError, match="leave slashes out"):
        resume.part("a/b", lambda: 1)


def test_what_cannot_be_kept_is_used_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_KEEP", str(tmp_path / "gone"))
    assert resume.part("a", lambda: 1) == 1
    monkeypatch.setenv("LAB_KEEP", str(tmp_path))
    (tmp_path / "a.json").mkdir()
    assert resume.part("a", lambda: 1) == 1


def test_a_recording_whose_parts_another_removed_is_written(repo: Repository) -> None:
    body = f"import shutil\nshutil.rmtree({str(repo.root / resume.FOLDER)!r})"
    repo.example("heavy", body, heavy=True, main=True)
    (result,) = recorder.record_all(repo.root, only="*/heavy", heavy=True, device_name="cpu")
    assert (result.status, result.path.is_file()) == ("ok", True)
