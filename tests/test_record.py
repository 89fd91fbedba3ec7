from __future__ import annotations

import hashlib
import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from conftest import Repository

from fba_lab import depend, record
from fba_lab.example import Example
from fba_lab.record import BadRecord, Record

FIELDS = {
    "schema",
    "example",
    "device",
    "key",
    "key_parts",
    "status",
    "text",
    "metrics",
    "series",
    "tables",
    "artefacts",
    "error",
    "seconds",
    "peak_bytes",
    "provenance",
}


def made(one: Example, device: str = "cpu", **changes: Any) -> Record:
    key = depend.key(one, one.root)
    values: dict[str, Any] = {
        "example": one.id,
        "device": device,
        "key": key.hash,
        "key_parts": key.parts,
        "status": "ok",
        "text": "hé\n\x1b[31mred\0",
        "metrics": [],
        "series": [],
        "tables": [],
        "artefacts": [],
        "error": None,
        "seconds": 1.5,
        "peak_bytes": None,
        "provenance": {"device_name": "CPU"},
    }
    return Record(**values | changes)


def write(one: Example, device: str = "cpu", **changes: Any) -> Path:
    return record.write(made(one, device, **changes), {}, one, one.root)


def test_shape_of_the_file(repo: Repository) -> None:
    one = repo.example("first_steps")
    path = write(one)
    assert path == repo.root / "snippets/records/cpu/model-compile/first-steps.json"
    text = path.read_text(encoding="utf-8")
    values = json.loads(text)
    assert set(values) == FIELDS
    assert list(values) == sorted(values) and text.startswith('{\n  "artefacts"')
    assert record.load(one, "cpu", repo.root) == made(one)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "not valid JSON"),
        ("", "not valid JSON"),
        ("[]", "schema None, not 1"),
        ('{"schema": 2}', "schema 2, not 1"),
        ('{"schema": 1}', "field 'metrics' is missing"),
        ("OK-metrics", "field 'metrics' is missing or of a wrong type"),
        ("OK+more", "unknown field 'more'"),
        ("OK=status", "unknown status 'fine'"),
        (b"\xff\xfe", "cannot be read"),
    ],
)
def test_broken_records_are_one_line(repo: Repository, text: str | bytes, expected: str) -> None:
    one = repo.example("one")
    path = write(one)
    values = json.loads(path.read_text(encoding="utf-8"))
    changed = {
        "OK-metrics": values | {"metrics": 3},
        "OK+more": values | {"more": 1},
        "OK=status": values | {"status": "fine"},
    }
    content = json.dumps(changed[text]) if text in changed else text  # type: ignore[index]
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(BadRecord) as caught:
        record.load(one, "cpu", repo.root)
    message = str(caught.value)
    assert message.startswith("snippets/records/cpu/model-compile/one.json: ")
    assert expected in message and "\n" not in message


def test_states(repo: Repository) -> None:
    one = repo.example("one")
    state = record.state(one, "cpu", repo.root)
    assert (state.status, state.reasons, state.record) == ("missing", ["never recorded"], None)
    write(one)
    state = record.state(one, "cpu", repo.root)
    assert (state.status, state.reasons, state.record) == ("fresh", [], made(one))
    repo.edit("train_gpt.py", "return 2 * x", "return 3 * x")
    state = record.state(one, "cpu", repo.root)
    assert (state.status, state.reasons) == ("stale", ["train_gpt.scale changed"])
    assert state.record is not None and state.folder == path_of(one).parent


def path_of(one: Example) -> Path:
    return record.path(one, "cpu", one.root)


def test_local_results_stand_in_when_asked(repo: Repository) -> None:
    one = repo.example("one")
    record.write(made(one, text="mine"), {}, one, repo.root, record.LOCAL)
    assert record.state(one, "cpu", repo.root).status == "missing"
    state = record.state(one, "cpu", repo.root, local=True)
    assert (state.status, state.local, state.record.text) == ("fresh", True, "mine")
    write(one, text="ours")
    state = record.state(one, "cpu", repo.root, local=True)
    assert (state.local, state.record.text) == (False, "ours")
    repo.edit("train_gpt.py", "return 2 * x", "return 3 * x")
    assert record.state(one, "cpu", repo.root, local=True).status == "stale"


@pytest.mark.parametrize(
    ("raises", "changes", "expected"),
    [
        (None, {"status": "ok"}, None),
        (("ValueError", "x"), {"status": "expected-error"}, None),
        (
            None,
            {"status": "exit", "error": ("SystemExit", "exit code 3")},
            "exit: SystemExit: exit",
        ),
        (("E", "x"), {"status": "error-vanished"}, "error-vanished: it ran to its end"),
        (("E", "x"), {"status": "ok"}, "ok: no error; LAB declares ('E', 'x')"),
        (
            None,
            {"status": "error", "error": ("E", "at ⟦colon train_gpt.train 0+0⟧\nmore")},
            "error: E: at snippets/train_gpt.py:24",
        ),
    ],
)
def test_endings_that_are_not_declared(
    repo: Repository, raises: Any, changes: Any, expected: str | None
) -> None:
    one = repo.example("one", raises=raises)
    if "error" in changes:
        kind, message = changes["error"]
        changes = changes | {"error": {"type": kind, "message": message, "frames": []}}
    found = record.problem(made(one, **changes), one)
    assert found == expected if expected is None else found.startswith(expected)


def test_old_artefacts_go_when_the_record_is_there(repo: Repository) -> None:
    one, other = repo.example("one"), repo.example("one_more")
    record.write(made(one), {"one.plot.aa.svg": b"old"}, one, repo.root)
    record.write(made(other), {"one-more.plot.aa.svg": b"other"}, other, repo.root)
    record.write(made(one), {"one.plot.bb.svg": b"new"}, one, repo.root)
    names = {file.name for file in path_of(one).parent.iterdir()}
    assert names == {"one.json", "one.plot.bb.svg", "one-more.json", "one-more.plot.aa.svg"}


ENTRY = {
    "example": "model-compile/one",
    "device": "h200",
    "reason": "no GPU at hand",
    "date": "2026-11-30",
}


def pend(repo: Repository, entries: object) -> Path:
    path = repo.root / "snippets" / "records" / "pending.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(entries), encoding="utf-8")
    return path


def test_pending_is_shown_and_ended(repo: Repository) -> None:
    one = repo.example("one", devices=["cpu", "h200"])
    other = ENTRY | {"device": "cpu"}
    path = pend(repo, [ENTRY, other])
    assert record.state(one, "h200", repo.root).pending == "no GPU at hand"
    record.end_pending(one, "h200", repo.root)
    assert json.loads(path.read_text()) == [other]
    assert record.state(one, "h200", repo.root).pending is None
    write(one)
    assert record.state(one, "cpu", repo.root).pending is None  # fresh: nothing to wait for


@pytest.mark.parametrize(
    "entries", [{}, [3], [{"example": "a"}], [ENTRY | {"more": "x"}], [ENTRY | {"date": 3}]]
)
def test_broken_pending_is_one_line(repo: Repository, entries: object) -> None:
    pend(repo, entries)
    with pytest.raises(BadRecord, match=re.compile("^snippets/records/pending.json: ")) as caught:
        record.pending(repo.root)
    assert ("must have the texts" if isinstance(entries, list) else "no list") in str(caught.value)


def test_required_are_the_reference_devices(repo: Repository) -> None:
    assert record.required(repo.example("one", devices=["a100", "h200", "cpu"])) == ["h200", "cpu"]


METRIC = {"name": "a", "unit": "", "n": 1, "value": 1, "low": 1, "high": 1}
FILE = {
    "file": "one.a.txt",
    "kind": "text",
    "bytes": 2,
    "sha256": hashlib.sha256(b"hi").hexdigest(),
}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"example": "model-compile/two"}, "example is 'model-compile/two', not"),
        ({"device": "h200"}, "device is 'h200', not 'cpu'"),
        ({"provenance": {}}, "field 'provenance.device_name' is missing"),
        ({"status": "expected-error"}, "field 'error' does not go with status"),
        ({"key_parts": {"example": []}}, "field 'key_parts.example' is missing or of a wrong type"),
        ({"metrics": [1]}, "field 'metrics[0]'"),
        ({"metrics": [METRIC | {"value": "1"}]}, "field 'metrics[0].value'"),
        ({"metrics": [METRIC | {"value": 10**400}]}, "field 'metrics[0].value'"),
        ({"metrics": [{"name": "a"}]}, "field 'metrics[0].unit' is missing"),
        ({"tables": [1]}, "field 'tables[0]'"),
        ({"tables": [{"name": "t", "columns": ["a"], "rows": [[]]}]}, "table 't' has a row"),
        ({"artefacts": [1]}, "field 'artefacts[0]'"),
        ({"artefacts": [FILE | {"file": "../../mkdocs.yml"}]}, "is no file name of this example"),
        ({"artefacts": [FILE | {"file": "two.a.txt"}]}, "is no file name of this example"),
        ({"artefacts": [FILE | {"file": "one.json"}]}, "is no file name of this example"),
        ({"error": {"type": "E", "message": 5, "frames": []}}, "field 'error.message'"),
    ],
)
def test_records_are_checked_to_their_leaves(
    repo: Repository, changes: dict[str, Any], expected: str
) -> None:
    one = repo.example("one")
    path = write(one)
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | changes))
    with pytest.raises(BadRecord, match=re.escape(expected)) as caught:
        record.load(one, "cpu", repo.root)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["snippets/records/pending.json", None])
def test_deep_json_and_folders_are_bad_records(repo: Repository, name: str | None) -> None:
    one = repo.example("one")
    path = repo.root / name if name else write(one)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("[" * 100_000)
    with pytest.raises(BadRecord):
        record.state(one, "cpu", repo.root)
    path.unlink()
    path.mkdir()
    with pytest.raises(BadRecord, match="cannot be read"):
        record.load(one, "cpu", repo.root) if name is None else record.pending(repo.root)


def test_artefacts_are_verified(repo: Repository) -> None:
    one = repo.example("one")
    path = record.write(made(one, artefacts=[FILE]), {"one.a.txt": b"hi"}, one, repo.root)
    assert record.state(one, "cpu", repo.root).problem is None
    file = path.with_name("one.a.txt")
    file.write_bytes(b"ho")
    assert "is not the file that was recorded" in str(record.state(one, "cpu", repo.root).problem)
    file.unlink()
    assert "one.a.txt cannot be read" in str(record.state(one, "cpu", repo.root).problem)


def test_writers_at_the_same_time(repo: Repository) -> None:
    one = repo.example("one")
    others = [f"other-{n}" for n in range(8)]
    pend(repo, [ENTRY | {"example": one.id, "device": name} for name in others])

    def end(device: str) -> None:
        write(one)
        record.end_pending(one, device, repo.root)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(end, others))
    assert record.pending(repo.root) == []
    assert not list(repo.root.rglob("*.part"))


def test_a_full_disk_leaves_no_part(repo: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    one = repo.example("one")
    path = write(one)
    before = path.read_bytes()
    monkeypatch.setattr("os.fsync", lambda handle: (_ for _ in ()).throw(OSError(28, "full")))
    with pytest.raises(OSError, match="full"):
        write(one, text="new")
    assert path.read_bytes() == before and not list(repo.root.rglob("*.part"))
