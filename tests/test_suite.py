"""The record of the tests that need a GPU: made by real runs of pytest, in a small repository."""

import json
import os
import subprocess
import sys

import pytest
from conftest import Repository

from fba_lab import record, suite
from fba_lab.example import ROOT

SMI = """#!/bin/sh
case "$*" in *name*) echo "NVIDIA H200";; *) echo 570.1;; esac
"""
TESTS = '''"""Tests of a trainer in small."""

import pytest

from snippets import train_gpt

EXPECTED = 6.0
OTHER = 1.0


def close(a, b):
    print(f"scale: max difference {abs(a - b):.1e}, mean 0.5")
    assert a == b


@pytest.fixture
def size():
    return train_gpt.SIZE


@pytest.mark.gpu
@pytest.mark.parametrize("x", [1.0])
def test_scale(x, size):
    close(train_gpt.scale(x), EXPECTED)


@pytest.mark.gpu
def test_size(tmp_path):
    print(tmp_path)
    assert train_gpt.SIZE == 3


def test_on_any_machine():
    assert train_gpt.fails
'''
CONFTEST = """import pathlib
from fba_lab import suite

def pytest_configure(config):
    config.addinivalue_line("markers", "gpu: needs a GPU")
    config.pluginmanager.register(suite.Plugin(pathlib.Path(__file__).parents[1]))
"""


@pytest.fixture
def small(repo: Repository) -> Repository:
    (repo.root / "tests").mkdir()
    (repo.root / "tests" / "conftest.py").write_text(CONFTEST)
    write(repo, TESTS)
    tool = repo.root / "bin" / "nvidia-smi"
    tool.parent.mkdir()
    tool.write_text(SMI)
    tool.chmod(0o755)
    return repo


def write(repo: Repository, text: str) -> None:
    (repo.root / "tests" / "test_a.py").write_text(text)


def run(repo: Repository, *arguments: str, gpu: bool = True) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"PYTHONPATH": f"{repo.root}:{ROOT}", "LAB_COMMIT": "abcdef1"}
    env |= {"LAB_DIRTY": "0", "PATH": f"{repo.root}/bin:/usr/bin:/bin" if gpu else "/usr/bin:/bin"}
    env.pop("CUDA_VISIBLE_DEVICES", None)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=repo.root, env=env, capture_output=True, text=True)


def state(repo: Repository) -> record.State:
    found = suite.state(root=repo.root)
    assert found
    return found


def test_a_run_of_the_suite_becomes_its_record(small: Repository) -> None:
    assert (state(small).status, suite.problem(small.root)) == (
        "missing",
        "no record of suite/gpu on h200",
    )
    entry = {"example": suite.ID, "device": "h200", "reason": "no GPU", "date": "2026-12-01"}
    pending = small.root / record.RECORDS / "pending.json"
    pending.parent.mkdir(parents=True)
    pending.write_text(json.dumps([entry]))
    assert (state(small).pending, suite.problem(small.root)) == ("no GPU", None)
    done = run(small, "-m", "gpu")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "recorded: snippets/records/h200/suite/gpu.json" in done.stdout
    found = state(small)
    assert (found.status, found.problem) == ("fresh", None)
    made = found.record
    assert made and (made.status, made.device) == ("ok", "h200")
    tests, differences = made.tables
    assert [row[:2] for row in tests["rows"]] == [
        ["test_a.py::test_scale[1.0]", "passed"],
        ["test_a.py::test_size", "passed"],
    ]
    assert differences["rows"] == [["test_a.py::test_scale[1.0]", "scale", 0.0, 0.5]]
    assert str(small.root) not in record.to_json(made) and "/tmp/" not in made.text
    assert made.provenance["device_name"] == "NVIDIA H200"
    assert (made.provenance["commit"], made.provenance["dirty"]) == ("abcdef1", False)
    assert record.from_json(record.to_json(made), "here") == made
    assert json.loads(pending.read_text()) == []


@pytest.mark.parametrize(
    ("old", "new", "reasons"),
    [
        ("return 2 * x * SIZE", "return x * 2 * SIZE", ["train_gpt.scale changed"]),
        ("SIZE = 3", "SIZE = 4", ["train_gpt.SIZE changed"]),
        ("return math.pi", "return 3", []),
        ("a == b", "a <= b", ["tests.test_a.close changed"]),
        ("[1.0]", "[1.0, 2.0]", ["tests.test_a.test_scale changed"]),
        ("EXPECTED = 6.0", "EXPECTED = 6", ["tests.test_a.EXPECTED changed"]),
        ("    return train_gpt.SIZE", "    return 1", ["tests.test_a.size changed"]),
        ("assert train_gpt.fails", "assert True", []),
        ("OTHER = 1.0", "OTHER = 2.0", []),
    ],
)
def test_it_goes_stale_with_what_the_tests_reach(
    small: Repository, old: str, new: str, reasons: list[str]
) -> None:
    ran = [suite.Ran("test_scale[1.0]", "passed", 0.1), suite.Ran("test_size", "passed", 0.1)]
    made = suite.make(ran, "h200", 0.2, None, small.root)
    record.write(made, {}, suite.example(small.root), small.root)
    assert state(small).status == "fresh"
    files = [small.root / "snippets/train_gpt.py", small.root / "tests/test_a.py"]
    for file in files:
        file.write_text(file.read_text().replace(old, new))
    assert any(new in file.read_text() for file in files)
    assert state(small).reasons == reasons
    assert (suite.problem(small.root) is None) == (not reasons)


def test_a_failure_is_recorded_and_said(small: Repository) -> None:
    write(small, TESTS.replace("EXPECTED = 6.0", "EXPECTED = 7.0"))
    assert run(small, "-m", "gpu").returncode == 1
    found = state(small)
    assert found.record and found.record.status == "error"
    assert found.problem == (
        "error: TestFailure: 1 did not pass, first test_a.py::test_scale[1.0]: assert 6.0 == 7.0"
    )
    assert suite.problem(small.root) == f"suite/gpu on h200: {found.problem}"


@pytest.mark.parametrize(
    ("arguments", "gpu", "why"),
    [
        (["-m", "gpu", "-k", "size"], True, "only a part was asked for"),
        (["tests/test_a.py::test_size"], True, "only a part was asked for"),
        (["-m", "gpu", "-x", "--deselect", "tests/test_a.py::test_size"], True, "only a part"),
        (["-m", "gpu"], False, "no GPU here"),
        (["-m", "not gpu"], True, "only a part was asked for"),
        (
            ["--ignore", "tests/test_a.py"],
            True,
            "test_a.py::test_scale, test_a.py::test_size did not run",
        ),
    ],
)
def test_a_part_or_a_run_without_a_gpu_is_not_recorded(
    small: Repository, arguments: list[str], gpu: bool, why: str
) -> None:
    done = run(small, *arguments, gpu=gpu)
    assert done.returncode == 1, done.stdout
    assert f"not recorded: {why}" in done.stdout
    assert state(small).status == "missing"


def test_check_lists_it(small: Repository) -> None:
    small.example("one", main=True)

    def check(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "fba_lab", "check", "--root", str(small.root), *arguments]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)

    rows = {row["example"]: row for row in json.loads(check("--json").stdout)["examples"]}
    assert rows[suite.ID]["status"] == "missing" and rows[suite.ID]["required"]
    record.write(
        suite.make([], "h200", 0.2, None, small.root), {}, suite.example(small.root), small.root
    )
    assert "suite/gpu" in check().stdout and "no such example" not in check().stdout
    command = [sys.executable, "-m", "fba_lab", "report", "--root", str(small.root)]
    report = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout
    assert "suite/gpu  h200    passed" in report
    (small.root / "tests" / "test_a.py").unlink()
    assert "suite/gpu.json: no such example; delete it" in check().stdout


def test_ours_has_a_key_over_the_trainer() -> None:
    parts = suite.key().parts
    assert {"train_gpt.GPT", "train_gpt.varlen_attention", "train_gpt.polar_express"} <= set(parts)
    assert "tests.test_train_gpt.test_import_has_no_effect" not in parts
