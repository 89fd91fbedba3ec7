"""Every way a run can end, provoked by real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from conftest import Repository

from fba_lab.process import KEPT_BYTES, Stopped
from fba_lab.run import Outcome, run_example

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of all descendants")


def run(repo: Repository, body: str, **lab: object) -> Outcome:
    return run_example(repo.example("one", body, **lab), "cpu", grace_s=0.3)


def alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def test_a_run_that_ends_well(repo: Repository) -> None:
    outcome = run(
        repo,
        """
        import sys, os
        print("out")
        print("err", file=sys.stderr)
        os.system("echo from a shell")
        os.write(1, b"from C\\n")
        measure.metric("steps", 3, "")
        measure.metric("ms", [1.0, 2.0], "ms")
        """,
    )
    assert (outcome.status, outcome.error, outcome.left_out) == ("ok", None, 0)
    assert outcome.output == b"out\nerr\nfrom a shell\nfrom C\n"
    assert [event["name"] for event in outcome.events] == ["steps", "ms"]
    assert 0 < outcome.seconds < 10 and outcome.peak_bytes > 1_000_000


def test_surroundings(repo: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    monkeypatch.setenv("PYTHONSTARTUP", "/nowhere")
    outcome = run(
        repo,
        """
        import os, pathlib, random, sys, tempfile, getpass, json
        here = pathlib.Path.cwd()
        print(list(here.iterdir()), sorted(os.environ))
        print(pathlib.Path.home() == here == pathlib.Path(tempfile.gettempdir()), getpass.getuser())
        print(os.environ["LAB_DEVICE"], repr(os.environ["CUDA_VISIBLE_DEVICES"]), sys.stdin.read())
        print(random.random(), hash("a") == hash("a"), sys.argv == [__file__], __name__)
        """,
    )
    lines = outcome.output.decode().splitlines()
    assert lines[0].startswith("[] [") and "hunter2" not in lines[0]
    assert not {"SECRET_TOKEN", "PYTHONSTARTUP"} & set(eval(lines[0][3:]))
    assert lines[1:3] == ["True lab", "cpu '' "]
    assert lines[3] == "0.8444218515250481 True True __main__"


def test_numpy_is_seeded(repo: Repository) -> None:
    pytest.importorskip("numpy")
    body = "import numpy\nprint(numpy.random.rand())"
    assert run(repo, body).output == run(repo, body).output == b"0.5488135039273248\n"


def test_raises(repo: Repository) -> None:
    outcome = run(repo, "print('before')\ntrain_gpt.fails(3)")
    assert (outcome.status, outcome.output) == ("error", b"before\n")  # no traceback in it
    assert (outcome.error["type"], outcome.error["message"]) == ("ValueError", "cannot train on 3")
    assert [frame["line_text"] for frame in outcome.error["frames"]][-2:] == [
        "train_gpt.fails(3)",
        'raise ValueError(f"cannot train on {x}")',
    ]


@pytest.mark.parametrize(
    ("raises", "status"),
    [
        (("ValueError", "cannot train"), "expected-error"),
        (("ValueError", "another message"), "error"),
        (("TypeError", "cannot train"), "error"),
        (("Error", "cannot train"), "error"),
    ],
)
def test_declared_error(repo: Repository, raises: tuple[str, str], status: str) -> None:
    assert run(repo, "train_gpt.fails(3)", raises=raises).status == status


@pytest.mark.parametrize("name", ["json.decoder.JSONDecodeError", "JSONDecodeError"])
def test_declared_error_by_qualified_or_bare_name(repo: Repository, name: str) -> None:
    outcome = run(repo, "import json\njson.loads('{')", raises=(name, "Expecting"))
    assert outcome.status == "expected-error"
    assert outcome.error["type"] == "json.decoder.JSONDecodeError"


def test_declared_error_that_no_longer_comes(repo: Repository) -> None:
    outcome = run(repo, "print('fine')", raises=("ValueError", "cannot"))
    assert (outcome.status, outcome.error) == ("error-vanished", None)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("import sys\nsys.exit(3)", "exit code 3"),
        ("import sys\nsys.exit(0)", "exit code 0"),
        ("import sys\nsys.exit('no data')", "exit code no data"),
        ("import os\nos._exit(7)", "exit code 7, without a Python exit"),
        ("import os\nos._exit(0)", "exit code 0, without a Python exit"),
    ],
)
def test_exits(repo: Repository, body: str, message: str) -> None:
    outcome = run(repo, body)
    assert (outcome.status, outcome.error["message"]) == ("exit", message)


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV", "SIGABRT", "SIGTERM"])
def test_killed_by_a_signal(repo: Repository, name: str) -> None:
    outcome = run(repo, f"print('up')\nimport os, signal\nos.kill(os.getpid(), signal.{name})")
    assert (outcome.status, outcome.error["type"]) == ("signal", name)
    assert outcome.output == b"up\n"


def test_kills_its_whole_group(repo: Repository) -> None:
    assert run(repo, "import os\nos.killpg(0, 9)").status == "signal"


def test_hangs(repo: Repository) -> None:
    outcome = run(repo, "print('up')\nimport time\ntime.sleep(60)", limit_s=0.5)
    assert (outcome.status, outcome.output) == ("timeout", b"up\n")
    assert outcome.error["message"] == "still running after its limit of 0.5 s"


def test_hangs_and_ignores_signals(repo: Repository) -> None:
    body = """
    import signal, time
    for one in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(one, signal.SIG_IGN)
    while True:
        time.sleep(60)
    """
    assert run(repo, body, limit_s=0.5).status == "timeout"


def test_hangs_after_the_end_of_main(repo: Repository) -> None:
    body = "import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()"
    assert run(repo, body, limit_s=0.5).status == "timeout"


SLEEPER = "subprocess.Popen(['sleep', '60']{})"


@linux
@pytest.mark.parametrize("how", ["", ", start_new_session=True"])
def test_leaves_a_child_that_holds_the_pipe(repo: Repository, how: str) -> None:
    body = f"import subprocess\nprint({SLEEPER.format(how)}.pid)"
    start = time.monotonic()
    outcome = run(repo, body)
    assert time.monotonic() - start < 10
    assert (outcome.status, outcome.error["type"]) == ("error", "LeftProcess")
    assert outcome.error["message"] == "1 process left running: sleep"
    assert not alive(int(outcome.output))


@linux
def test_leaves_a_grandchild_of_a_dead_parent(repo: Repository) -> None:
    script = "setsid sh -c 'sleep 60 & echo $!'"
    body = f"import os\nos.system({script!r})"
    outcome = run(repo, body)
    assert outcome.error["message"] == "1 process left running: sleep"
    assert not alive(int(outcome.output))


@linux
def test_hangs_with_children(repo: Repository) -> None:
    body = f"import subprocess, time\nprint({SLEEPER.format(', start_new_session=True')}.pid)\n"
    outcome = run(repo, body + "time.sleep(60)", limit_s=0.5)
    assert outcome.status == "timeout"
    assert not alive(int(outcome.output))


def test_a_child_that_ends_by_itself_is_no_fault(repo: Repository) -> None:
    body = "import subprocess\nsubprocess.Popen(['sleep', '0.1'])"
    assert run(repo, body).status == "ok"


def test_floods(repo: Repository) -> None:
    body = """
    import sys
    print("first")
    for _ in range(100):
        sys.stdout.write("x" * 999_999 + "\\n")
    print("last")
    """
    start = time.monotonic()
    outcome = run(repo, body)
    assert outcome.status == "ok"
    assert len(outcome.output) == 2 * KEPT_BYTES
    assert outcome.left_out == 100_000_000 + len("first\nlast\n") - 2 * KEPT_BYTES
    assert outcome.output.startswith(b"first\n") and outcome.output.endswith(b"\nlast\n")
    assert time.monotonic() - start < 20


def test_floods_and_hangs(repo: Repository) -> None:
    body = "import os\nwhile True:\n    os.write(1, b'y' * 65536)"
    assert run(repo, body, limit_s=0.5).status == "timeout"


def test_odd_bytes_are_kept(repo: Repository) -> None:
    odd = b"<script>\n```python\n--8<-- x\n\x1b[31mred\x1b[0m \xff\xfe \0 {{ x }}\n"
    assert run(repo, f"import os\nos.write(1, {odd!r})").output == odd


@pytest.mark.parametrize(
    "body",
    [
        "raise MemoryError('40 GB')",
        "class OutOfMemoryError(RuntimeError): pass\nraise OutOfMemoryError('CUDA')",
        "import resource\nresource.setrlimit(resource.RLIMIT_AS, (1 << 29,) * 2)\n[0] * (1 << 28)",
    ],
)
def test_out_of_memory(repo: Repository, body: str) -> None:
    assert run(repo, body).status == "out-of-memory"


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("measure.metric('a', 1, '')\nmeasure.metric('a', 2, '')", "DuplicateName"),
        ("measure.metric('a', [], 'ms')", "ValueError"),
        ("import pathlib\npathlib.Path('a').touch()\nmeasure.artefact('a', 'svg')", "LostArtefact"),
        (
            "import os\nopen('a', 'w').write('x')\nmeasure.artefact('a', 'svg')\nos.remove('a')",
            "LostArtefact",
        ),
    ],
)
def test_bad_results_are_errors(repo: Repository, body: str, kind: str) -> None:
    outcome = run(repo, body)
    assert (outcome.status, outcome.error["type"]) == ("error", kind)


def test_an_error_that_cannot_say_what_it_is(repo: Repository) -> None:
    body = "class E(Exception):\n    def __str__(self): return 1 / 0\nraise E"
    outcome = run(repo, body)
    assert outcome.status == "error" and "ZeroDivisionError" in outcome.error["message"]


def test_closed_streams_and_moved_folder(repo: Repository) -> None:
    body = "import os, sys\nprint('up')\nos.chdir('/')\nsys.stdout.close()\nsys.stderr.close()"
    outcome = run(repo, body)
    assert (outcome.status, outcome.output) == ("ok", b"up\n")


def test_caches_are_shared_or_empty(repo: Repository, tmp_path: Path) -> None:
    body = """
    import os, pathlib
    folder = pathlib.Path(os.environ["TORCHINDUCTOR_CACHE_DIR"])
    print(folder.exists())
    folder.mkdir(parents=True, exist_ok=True)
    """
    shared = repo.example("shared", body, cache="shared")
    private = repo.example("private", body, cache="private")
    printed = [
        run_example(one, "cpu", cache_dir=tmp_path / "cache").output
        for one in (shared, private, shared, private)
    ]
    assert printed == [b"False\n", b"False\n", b"True\n", b"False\n"]


def test_stop_ends_the_run(repo: Repository) -> None:
    stop = threading.Event()
    threading.Timer(0.5, stop.set).start()
    start = time.monotonic()
    with pytest.raises(Stopped):
        run_example(repo.example("one", "import time\ntime.sleep(60)"), "cpu", stop=stop)
    assert time.monotonic() - start < 10


@linux
def test_death_of_the_runner_ends_the_example(repo: Repository, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    one = repo.example(
        "one", f"import os, time\nopen({str(note)!r}, 'w').write(str(os.getpid()))\ntime.sleep(60)"
    )
    code = (
        "import sys; from pathlib import Path; from fba_lab.example import read\n"
        "from fba_lab.run import run_example\n"
        "run_example(read(Path(sys.argv[1]), Path(sys.argv[2])), 'cpu')\n"
    )
    command = [sys.executable, "-c", code, str(one.path), str(repo.root)]
    runner = subprocess.Popen(command, cwd=Path(__file__).parent.parent)
    wait_for(lambda: note.exists() and note.read_text() != "")
    os.kill(runner.pid, signal.SIGKILL)
    runner.wait()
    wait_for(lambda: not alive(int(note.read_text())))


def wait_for(condition: object) -> None:
    end = time.monotonic() + 15
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.02)


@pytest.mark.skipif(sys.platform != "linux", reason="signal 40 is a real-time signal of Linux")
def test_a_signal_without_a_name(repo: Repository) -> None:
    outcome = run(repo, "import os; os.kill(os.getpid(), 40)")
    assert (outcome.status, outcome.error["type"]) == ("signal", "signal 40")


def test_a_lost_file_of_results(repo: Repository) -> None:
    outcome = run(
        repo,
        """
        import os
        os.unlink(os.environ["LAB_RESULT"])
        os.mkdir(os.environ["LAB_RESULT"])
        """,
    )
    assert (outcome.status, outcome.error["type"]) == ("error", "LostResult")


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ({"event": "metric", "name": "a"}, "metric: field 'unit' is missing"),
        ({"event": []}, "unknown event []"),
        ({"event": "artefact", "path": "x", "kind": "exe"}, "artefact: field 'kind'"),
        ({"event": "end"}, "end: field 'error' is missing"),
    ],
)
def test_raw_events_are_checked(repo: Repository, event: object, message: str) -> None:
    line = json.dumps(event)
    outcome = run(repo, f"import os\nopen(os.environ['LAB_RESULT'], 'a').write({line!r} + chr(10))")
    assert (outcome.status, outcome.error["type"]) == ("error", "BadResult")
    assert message in outcome.error["message"] and outcome.events == []
