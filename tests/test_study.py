"""The `study` command, as a reader meets it: in processes of its own."""

import contextlib
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from small_site import REPOSITORY, TRAINER, make, record_file

from fba_lab import catalogue, recorder


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with one recorded block, and the package beside it."""
    root = make(tmp_path_factory.mktemp("study"))
    (root / "fba_lab").symlink_to(REPOSITORY / "fba_lab")
    recorder.record_all(root, device_name="cpu")
    return root


def study(
    root: Path, *arguments: str, torch: str | None = "", **environment: str
) -> subprocess.CompletedProcess:
    """Run the command in a repository; `torch` is the source of the torch that it finds.

    The package is read through a link, so its root must be given: it is where `python -m` stands.
    """
    path = root / ("with_torch" if torch is not None else "without_torch")
    path.mkdir(exist_ok=True)
    start = f"import sys; sys.path.insert(0, {str(path)!r})\n"
    if torch is None:  # as if it were not installed
        start += "sys.modules['torch'] = None\n"
        start += "import importlib.util as u; f = u.find_spec\n"
        start += "u.find_spec = lambda name, *a: None if name == 'torch' else f(name, *a)\n"
    else:
        (path / "torch.py").write_text(torch or "raise SystemError('torch was imported')")
    start += f"import pathlib; from fba_lab import example; root = pathlib.Path({str(root)!r})\n"
    start += "example.ROOT = root\n"
    start += f"from fba_lab import study; sys.exit(study.main({list(arguments)!r}))"
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY), "CUDA_VISIBLE_DEVICES": "", **environment}
    return subprocess.run(
        [sys.executable, "-c", start],
        cwd=root,
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_list_on_our_file_imports_no_torch(recorded: Path) -> None:
    run = study(recorded, "train_gpt.py", "--list")
    assert run.returncode == 0, run.stderr
    assert "model-compile" in run.stdout
    assert "30–32" in run.stdout
    assert "\x1b" not in run.stdout  # a pipe gets no colours


def test_list_json_has_the_agreed_shape(recorded: Path) -> None:
    run = study(recorded, "train_gpt.py", "--list", "--json")
    found = json.loads(run.stdout)
    assert list(found) == ["file", "blocks"]
    assert [block["id"] for block in found["blocks"]] == list(catalogue.IDS)
    block = next(block for block in found["blocks"] if block["id"] == "model-compile")
    assert list(block) == ["id", "title", "section", "status", "spans"]
    assert block["status"] == "found"
    assert block["spans"][0] | {"file": ""} == {"file": "", "start": 30, "end": 32, "primary": True}


def test_block_runs_and_ends_in_a_tick(recorded: Path) -> None:
    run = study(recorded, "train_gpt.py", "--block", "model-compile", "--device", "cpu")
    assert run.returncode == 0, run.stdout + run.stderr
    order = [
        "train_gpt.py ▸ torch.compile",
        "1/1",
        "lines 30–32",
        "31     model = torch.compile(model",
        "running first-steps on cpu",
        "✓ first-steps ran on",
        "compiled_ms",
        "Explanation",
        "Times that were typed",
        "Think about",
        "What if shapes change?",
    ]
    places = [run.stdout.find(text) for text in order]
    assert places == sorted(places)
    assert -1 not in places, dict(zip(order, places, strict=True))
    assert "quartiles" not in run.stdout


def test_engineer_gets_quartiles_and_provenance(recorded: Path) -> None:
    run = study(recorded, "train_gpt.py", "--block", "model-compile", "--level", "engineer")
    assert "quartiles 10.75 – 12.25, n = 4" in run.stdout
    assert "torch" in run.stdout


def test_without_torch_it_replays_and_says_so(recorded: Path) -> None:
    run = study(recorded, "train_gpt.py", "--block", "model-compile", torch=None)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "Replayed from the record: torch is not installed" in run.stdout
    assert "✓ first-steps ran on" in run.stdout


def test_without_a_gpu_it_replays_nothing_it_does_not_have(recorded: Path) -> None:
    run = study(recorded, "train_gpt.py", "--block", "model-compile", "--device", "cuda")
    assert run.returncode == 1
    assert "there is no such GPU here; and nothing is recorded" in run.stdout.replace("\n", " ")
    assert "✓" not in run.stdout


def test_a_run_that_fails_ends_in_a_cross_and_1(recorded: Path, tmp_path: Path) -> None:
    root = make(tmp_path / "broken")
    file = root / "snippets/examples/model_compile/first_steps.py"
    file.write_text(file.read_text().replace("    print(EVIL)", "    raise OSError('no disk')"))
    run = study(root, "train_gpt.py", "--block", "model-compile", "--device", "cpu")
    assert run.returncode == 1
    assert "✗ first-steps" in run.stdout
    assert "OSError: no disk" in run.stdout
    assert "✓" not in run.stdout


def test_on_a_terminal_the_run_is_seen_to_go_on(recorded: Path) -> None:
    """A live line with a spinner and the time, which goes; then the tick and the numbers."""
    ours, theirs = pty.openpty()
    start = "import sys; from fba_lab import example; import pathlib\n"
    start += f"example.ROOT = pathlib.Path({str(recorded)!r})\n"
    start += "from fba_lab import study; sys.exit(study.main(sys.argv[1:]))"
    command = [sys.executable, "-c", start, "train_gpt.py", "--block", "model-compile"]
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY), "CUDA_VISIBLE_DEVICES": ""}
    env |= {"TERM": "xterm-256color", "COLUMNS": "80"}
    with subprocess.Popen(
        [*command, "--device", "cpu"], cwd=recorded, env=env, stdout=theirs
    ) as run:
        os.close(theirs)
        text = b""
        with contextlib.suppress(OSError):  # how Linux says that the other end is closed
            while piece := os.read(ours, 4096):
                text += piece
    os.close(ours)
    shown = re.sub(r"\x1b\[[?0-9;]*[a-zA-Z]", "", text.decode())
    assert run.returncode == 0, shown
    live = re.findall(r"([⠀-⣿]) (\d:\d\d:\d\d) running first-steps on cpu \(", shown)
    assert "s when recorded; Ctrl-C stops it)" in shown
    assert len({sign for sign, _ in live}) > 1, shown
    assert shown.rfind("running first-steps") < shown.find("✓ first-steps ran on")
    assert "\x1b[2K" in text.decode()  # the live line was taken back


def test_no_run(recorded: Path) -> None:
    run = study(recorded, "train_gpt.py", "--block", "model-compile", "--no-run")
    assert run.returncode == 0
    assert "first-steps ran" not in run.stdout
    assert "Explanation" in run.stdout


def test_block_json(recorded: Path) -> None:
    arguments = ("train_gpt.py", "--block", "model-compile", "--json")
    run = study(recorded, *arguments, "--device", "cpu")
    found = json.loads(run.stdout)
    assert found["id"] == "model-compile"
    assert found["place"] == [1, 1]
    assert found["result"]["status"] == "ok"
    assert found["spans"][0]["start"] == 30
    assert json.loads(study(recorded, *arguments, "--no-run").stdout)["result"] is None


def test_colours_on_a_terminal_only(recorded: Path) -> None:
    colour = {"FORCE_COLOR": "1", "TERM": "xterm-256color"}
    arguments = ("train_gpt.py", "--block", "model-compile", "--no-run")
    assert "\x1b[" in study(recorded, *arguments, **colour).stdout
    assert "\x1b[3" not in study(recorded, *arguments, NO_COLOR="1", **colour).stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("train_gpt.py", "--block", "model-compil"), "did you mean model-compile"),
        (("train_gpt.py", "--block", "softcap"), "has no block softcap"),
        (("gone.py", "--list"), "no file gone.py"),
        (("snippets", "--list"), "snippets is a folder"),
        (("empty.py", "--list"), "empty.py is empty"),
        (("binary.py", "--list"), "binary.py is not text"),
        (("latin.py", "--list"), "latin.py is not text"),
        (("syntax.py", "--list"), "syntax.py:2"),
        (("train_gpt.py", "--block", "nothing-like-it"), "no block is called 'nothing-like-it'"),
        (("gone.py", "--block", "model-compile"), "no file gone.py"),
        (("", "--list"), "no file is named"),
        ((".", "--block", "model-compile", "--json"), ". is a folder"),
        (("other.py", "--list"), "other.py has none of the blocks"),
        (("other.py", "--list", "--json"), "other.py has none of the blocks"),
        (("other.py", "--block", "model-compile"), "other.py has none of the blocks"),
        (("comment.py", "--list"), "comment.py has none of the blocks"),
        (("syntax.py", "--block", "model-compile"), "syntax.py:2"),
        (("unclosed.py", "--list"), "unclosed.py:1: not valid Python: '(' was never closed"),
        (("train_gpt.py", "--list", "--block", "model-compile"), "not allowed with"),
        (("train_gpt.py", "--block", "model-compile", "--device", "tpu"), "invalid choice: 'tpu'"),
        (("train_gpt.py",), "required"),
        (("train_gpt.py", "--list", "--level", "expert"), "invalid choice: 'expert'"),
        (("train_gpt.py", "--lst"), "required"),
    ],
)
def test_wrong_use_is_one_line_and_2(recorded: Path, arguments: tuple[str, ...], said: str) -> None:
    (recorded / "empty.py").write_text(" \n")
    (recorded / "binary.py").write_bytes(b"\x00\x01\x02")
    (recorded / "latin.py").write_bytes("x = 'é'".encode("latin-1"))
    (recorded / "syntax.py").write_text("x = 1\ndef :\n")
    (recorded / "unclosed.py").write_text("x = (\n")
    (recorded / "other.py").write_text("def train():\n    return 1\n")
    (recorded / "comment.py").write_text("# nothing yet\n")
    run = study(recorded, *arguments)
    assert run.returncode == 2, run.stdout + run.stderr
    assert said in run.stderr
    assert len(run.stderr.strip().splitlines()) == 1
    assert run.stderr.startswith("study: ")
    assert run.stdout == ""


def test_a_file_of_ones_own(recorded: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text("# my own\n" + TRAINER)
    run = study(recorded, str(mine), "--block", "model-compile", "--device", "cpu")
    assert "lines 31–33" in run.stdout
    assert "The example runs snippets/train_gpt.py, not" in run.stdout


def test_a_reader_that_stops_reading(recorded: Path) -> None:
    assert record_file(recorded, "first-steps").exists()
    command = f"{sys.executable} -m fba_lab.study train_gpt.py --list | head -1"
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    run = subprocess.run(
        command, shell=True, cwd=REPOSITORY, env=env, capture_output=True, text=True
    )
    assert run.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "end", "code", "said"),
    [
        ("train_gpt.py --list", "| true", 1, ""),
        ("train_gpt.py --list --json", "| true", 1, ""),
        ("--help", "| true", 1, ""),
        ("train_gpt.py --list", ">/dev/full", 2, "study: [Errno 28]"),
        ("train_gpt.py --list --json", ">/dev/full", 2, "study: [Errno 28]"),
    ],
)
def test_output_that_nobody_takes(arguments: str, end: str, code: int, said: str) -> None:
    wait = "import sys, time; time.sleep(0.3); from fba_lab import study; sys.exit(study.main())"
    script = f"{sys.executable} -c '{wait}' {arguments} {end}; exit ${{PIPESTATUS[0]}}"
    # Buffered, as for a reader: what is written fails late, when the buffer is emptied.
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONUNBUFFERED": ""}
    run = subprocess.run(["bash", "-c", script], env=env, capture_output=True, text=True)
    assert run.returncode == code
    assert run.stderr.startswith(said)
    assert len(run.stderr.splitlines()) == bool(said)


@pytest.mark.parametrize("environment", [{"COLUMNS": "0"}, {"PYTHONIOENCODING": "ascii"}])
def test_odd_terminals_get_the_text(recorded: Path, environment: dict[str, str]) -> None:
    arguments = ("train_gpt.py", "--block", "model-compile", "--no-run")
    run = study(recorded, *arguments, **environment)
    assert (run.returncode, run.stderr) == (0, "")
    assert "model = torch.compile(model" in run.stdout


@pytest.mark.parametrize("mark", ["\f", "\u2028"])
def test_only_line_ends_of_python_count(recorded: Path, tmp_path: Path, mark: str) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(f"# a{mark}b\n{TRAINER}", encoding="utf-8")
    run = study(recorded, str(mine), "--block", "model-compile", "--no-run")
    assert "32     model = torch.compile(model" in run.stdout
