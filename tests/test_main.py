from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Repository

from fba_lab import __main__ as cli
from fba_lab import record
from fba_lab.example import ROOT

LAYERS = (
    ("block", "catalogue", "syntax", "locate", "example", "place", "depend"),
    (
        *("plain", "measure", "device", "child", "process", "run", "scrub", "shape", "files"),
        *("record", "resume", "notebook", "cells", "transcript", "recorder", "suite"),
    ),
)
# The meaning of a measurement is part of the key, so the number is read where it is raised.
EXCEPTIONS = {("depend", "measure")}


@pytest.fixture
def two(repo: Repository) -> Repository:
    repo.example("one", "measure.metric('a_ms', [1.0, 2.0, 4.0], 'ms')", main=True)
    repo.example("two", "print(train_gpt.SIZE)", devices=["cpu", "h200"])
    return repo


def lab(repo: Repository, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fba_lab", *arguments, "--root", str(repo.root)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_options_are_a_contract() -> None:
    [commands] = [one for one in cli.parser()._actions if one.dest == "==SUPPRESS=="]
    options = {
        name: sorted(
            option
            for action in command._actions
            for option in action.option_strings
            if option not in ("-h", "--help", "--root")
        )
        for name, command in commands.choices.items()
    }
    assert options == {
        "check": ["--json", "--release"],
        "record": ["--device", "--heavy", "--jobs", "--only", "--out", "--stale"],
        "report": ["--json"],
        "wording": [],
    }


def test_check_record_report(two: Repository) -> None:
    done = lab(two, "check")
    assert done.returncode == 1 and done.stdout.count("missing  never recorded") == 3
    done = lab(two, "record", "--device", "cpu")
    assert done.returncode == 0 and done.stderr == ""
    lines = done.stdout.splitlines()
    assert [line.split()[:3] for line in lines[:2]] == [
        ["model-compile/one", "cpu", "ok"],
        ["model-compile/two", "cpu", "ok"],
    ]
    assert lines[2].startswith("2 recorded on cpu in ")
    done = lab(two, "check")
    assert done.returncode == 1 and done.stdout.splitlines()[-1] == "3 records, 1 stale or missing"
    done = lab(two, "report")
    assert done.returncode == 0
    assert done.stdout.splitlines()[1].split()[:7] == [
        "model-compile/one",
        "cpu",
        "a_ms",
        "2",
        "ms",
        "1.5",
        "3",
    ]
    rows = json.loads(lab(two, "report", "--json").stdout)["metrics"]
    assert (rows[0]["value"], rows[0]["n"]) == (2.0, 3)


def test_check_json(two: Repository) -> None:
    cli.main(["record", "--root", str(two.root), "--device", "cpu"])
    two.edit("train_gpt.py", "SIZE = 3", "SIZE = 4")
    done = lab(two, "check", "--json")
    rows = json.loads(done.stdout)["examples"]
    assert [
        (row["example"], row["block"], row["device"], row["status"], row["reasons"]) for row in rows
    ] == [
        ("model-compile/one", "model-compile", "cpu", "fresh", []),
        ("model-compile/two", "model-compile", "cpu", "stale", ["train_gpt.SIZE changed"]),
        ("model-compile/two", "model-compile", "h200", "missing", ["never recorded"]),
    ]


def test_pending_fails_a_release_only(two: Repository) -> None:
    cli.main(["record", "--root", str(two.root), "--device", "cpu"])
    entry = {"example": "model-compile/two", "device": "h200", "reason": "no GPU", "date": "x"}
    (two.root / record.RECORDS / "pending.json").write_text(json.dumps([entry]))
    done = lab(two, "check")
    assert done.returncode == 0 and "missing  never recorded; pending: no GPU" in done.stdout
    assert lab(two, "check", "--release").returncode == 1


def test_a_record_that_ended_otherwise_fails_check(two: Repository) -> None:
    two.example("two", "raise SystemExit(4)")
    done = lab(two, "record", "--device", "cpu")
    assert done.returncode == 1
    assert "snippets/examples/model_compile/two.py:1: exit: SystemExit: exit code 4" in done.stdout
    assert "1 ended otherwise than declared" in done.stdout
    done = lab(two, "check")
    assert done.returncode == 1 and "exit: SystemExit: exit code 4" in done.stdout


def test_strays(two: Repository) -> None:
    cli.main(["record", "--root", str(two.root), "--device", "cpu", "--only", "*/one"])
    path = two.root / record.RECORDS / "cpu" / "model-compile" / "one.json"
    path.rename(path.with_name("gone.json"))
    entry = {"example": "model-compile/gone", "device": "cpu", "reason": "r", "date": "x"}
    (two.root / record.RECORDS / "pending.json").write_text(json.dumps([entry]))
    lines = lab(two, "check").stdout.splitlines()
    assert "snippets/records/cpu/model-compile/gone.json: no such example; delete it" in lines
    assert any("pending.json: no example is called 'model-compile/gone'" in line for line in lines)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["record", "--device", "h200"], "no device 'h200'"),
        (["record", "--device", "cpu", "--only", "x*"], "matches 'x*'"),
    ],
)
def test_wrong_use_is_one_line(
    two: Repository, monkeypatch: pytest.MonkeyPatch, arguments: list[str], expected: str
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    done = lab(two, *arguments)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("fba_lab: ") and done.stderr.count("\n") == 1
    assert expected in done.stderr


def test_wrong_jobs(two: Repository) -> None:
    done = lab(two, "record", "--jobs", "0")
    assert done.returncode == 2 and "'0' is not a number of jobs" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["check", "report", "record"])
@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        ("examples/model_compile/one.py", "LAB = 3\n", "one.py:1: LAB must be written"),
        ("train_gpt.py", "def f(:\n", "snippets/train_gpt.py:1: not valid Python"),
    ],
)
def test_broken_sources_are_one_line(
    two: Repository, command: str, file: str, text: str, expected: str
) -> None:
    two.write(file, text)
    if command == "report" and file == "train_gpt.py":
        return  # it reads no trainer
    done = lab(two, command)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert expected in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["check", "report"])
@pytest.mark.parametrize(
    ("text", "expected"), [("{", "not valid JSON"), ('{"schema": 9}', "schema 9, not 1")]
)
def test_broken_records_are_one_line(
    two: Repository, command: str, text: str, expected: str
) -> None:
    path = two.root / record.RECORDS / "cpu" / "model-compile" / "one.json"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    done = lab(two, command)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert f"snippets/records/cpu/model-compile/one.json: {expected}" in done.stderr


def test_imports_point_one_way() -> None:
    rank = {name: number for number, layer in enumerate(LAYERS) for name in layer}
    for path in sorted((ROOT / "fba_lab").glob("*.py")):
        for target in imported(path):
            pair = (path.stem, target)
            if path.stem in rank and target != "__init__" and pair not in EXCEPTIONS:
                assert rank.get(target, 2) <= rank[path.stem], f"{path.name} imports {target}"


def imported(path: Path) -> set[str]:
    """Return the modules of the package that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fba_lab"):
            below = node.module.removeprefix("fba_lab").strip(".")
            found |= {below} if below else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {one.name[8:] for one in node.names if one.name.startswith("fba_lab.")}
    return {name for name in found if (path.parent / f"{name}.py").exists()}


def test_reading_and_running_need_the_standard_library_only() -> None:
    names = [name for layer in LAYERS for name in layer]
    code = f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n"
    code += "".join(f"import fba_lab.{name}\n" for name in (*names, "__main__"))
    code += "bad = [m for m in sys.modules if m.partition('.')[0] not in sys.stdlib_module_names]\n"
    code += "print([m for m in bad if not m.startswith(('fba_lab', '__main__'))])"
    done = subprocess.run(  # -S: no site-packages
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_modules_stay_small() -> None:
    for name in (name for layer in LAYERS for name in layer if name != "catalogue"):  # a table
        lines = (ROOT / "fba_lab" / f"{name}.py").read_text(encoding="utf-8").splitlines()
        assert len(lines) <= 270, f"{name}.py has {len(lines)} lines"


def test_what_the_system_refuses_is_one_line(two: Repository) -> None:
    for out in ("/dev/null", "/dev/null/x"):
        done = lab(two, "record", "--device", "cpu", "--out", out)
        assert done.returncode == 1 and done.stdout == ""
        assert done.stderr.startswith(f"fba_lab: {out}: ") and done.stderr.count("\n") == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a full device")
@pytest.mark.parametrize("command", ["check", "--help"])
def test_lost_stdout(two: Repository, command: str) -> None:
    line = f"{sys.executable} -m fba_lab {command}"
    line += f" --root {two.root}" if command == "check" else ""
    # Without buffering argparse itself leaves out what it cannot write.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    for end, expected in (("> /dev/full", "No space left"), ("| true", "")):
        shell = f"set -o pipefail; (sleep 0.2; exec {line}) {end}"
        done = subprocess.run(
            ["bash", "-c", shell], cwd=ROOT, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 1 and expected in done.stderr
        assert done.stderr.count("\n") == bool(expected)


def test_empty_device_and_missing_root_are_wrong_use(two: Repository) -> None:
    done = lab(two, "record", "--device", "")
    assert (done.returncode, done.stdout) == (2, "") and "no device ''" in done.stderr
    command = [sys.executable, "-m", "fba_lab", "check", "--root", "/nonexistent"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "") and "/nonexistent" in done.stderr


def test_a_lost_artefact_fails_check(two: Repository) -> None:
    body = (
        "import pathlib\npathlib.Path('a.txt').write_text('hi')\nmeasure.artefact('a.txt', 'text')"
    )
    two.example("two", body)
    assert lab(two, "record", "--device", "cpu").returncode == 0
    assert lab(two, "check").returncode == 0
    next(two.root.rglob("two.a.*.txt")).unlink()
    done = lab(two, "check")
    assert done.returncode == 1 and "cannot be read" in done.stdout


def test_a_missing_package_is_one_line() -> None:
    code = "import sys; sys.modules['pygments'] = None\nfrom fba_lab import __main__\n"
    code += "sys.exit(__main__.main(['wording']))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "requirements-site.txt" in done.stderr
