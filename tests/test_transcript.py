from __future__ import annotations

import gzip
import hashlib
import json
import socket
import sys
import tempfile
from pathlib import Path

import pytest
from conftest import Repository

from fba_lab import depend
from fba_lab.record import Record, to_json
from fba_lab.run import run_example
from fba_lab.scrub import TEXT_LIMIT, render_places
from fba_lab.transcript import make


def transcribe(repo: Repository, body: str, **lab: object) -> tuple[Record, dict[str, bytes]]:
    one = repo.example("one", body, **lab)
    outcome = run_example(one, "cpu", grace_s=0.3)
    return make(one, "cpu", outcome, depend.key(one, repo.root), {"device_name": "CPU"})


def test_results_and_error(repo: Repository) -> None:
    found, _ = transcribe(
        repo,
        """
        measure.metric("n", 2, "")
        measure.series("s", [1], [2], x_label="x", y_label="y")
        measure.table("t", ["a"], [[1]])
        train_gpt.fails(3)
        """,
    )
    assert [one["name"] for one in (*found.metrics, *found.series, *found.tables)] == [
        "n",
        "s",
        "t",
    ]
    assert found.metrics[0] == {"name": "n", "unit": "", "n": 1, "value": 2, "low": 2, "high": 2}
    frames = [(frame["definition"], frame["line_text"]) for frame in found.error["frames"]]
    assert frames == [  # none of the lab's own
        ("examples.model_compile.one.<module>", "main()"),
        ("examples.model_compile.one.main", "train_gpt.fails(3)"),
        ("train_gpt.fails", 'raise ValueError(f"cannot train on {x}")'),
    ]


def test_odd_output_is_kept_as_text(repo: Repository) -> None:
    odd = "<script>alert(1)</script>\n```\n--8<-- 'x'\n\x1b[31mred\x1b[0m {{ x }}\n"
    found, _ = transcribe(repo, f"import os\nos.write(1, {odd.encode() + bytes([255, 0])!r})")
    assert found.text == odd + "\N{REPLACEMENT CHARACTER}\0"
    assert json.loads(to_json(found))["text"] == found.text


def test_flood_is_cut_in_the_middle(repo: Repository) -> None:
    found, _ = transcribe(repo, "for n in range(200_000):\n    print('line', n)", limit_s=60)
    assert len(found.text.encode()) <= TEXT_LIMIT
    assert found.text.startswith("line 0\nline 1\n") and found.text.endswith("line 199999\n")
    assert " bytes left out here ...]" in found.text


LEAKS = """
import getpass, os, pathlib, pwd, socket, sys, tempfile, traceback
here = [__file__, train_gpt.__file__, os.getcwd(), tempfile.mkdtemp(), sys.prefix, sys.executable]
here += [os.environ["TORCHINDUCTOR_CACHE_DIR"], os.__file__, pathlib.Path.home(), sys.path]
here += [os.environ, socket.gethostname(), getpass.getuser(), os.environ["LAB_DATA"]]
text = " ".join(map(str, here))
print(text)
pathlib.Path("plot.svg").write_text(text)
import gzip
pathlib.Path("Trace 1.json.gz").write_bytes(gzip.compress(text.encode()))
measure.artefact("plot.svg", "svg")
measure.artefact("Trace 1.json.gz", "trace")
measure.table(text, [text], [[text]])
try:
    train_gpt.fails(1)
except ValueError:
    traceback.print_exc()
    raise RuntimeError(text)
"""


def test_nothing_of_the_machine_reaches_a_record(
    repo: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    temp, home = tmp_path / "odd-temp", tmp_path / "odd-home"
    temp.mkdir()
    home.mkdir()
    for name, value in {
        "HOME": str(home),
        "TMPDIR": str(temp),
        "API_SECRET": "hunter2",
        "USER": "janedoe",
        "LOGNAME": "janedoe",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(socket, "gethostname", lambda: "janes-box")
    monkeypatch.setattr("getpass.getuser", lambda: "janedoe")
    body = f"import socket\nsocket.gethostname = lambda: 'janes-box'\n{LEAKS}"
    found, files = transcribe(repo, body)
    assert (found.status, found.error["type"]) == ("error", "RuntimeError")
    [svg, trace] = files.values()
    whole = f"{to_json(found)}{list(files)}{svg.decode()}{gzip.decompress(trace).decode()}"
    for leak in (
        str(tmp_path),
        "odd-temp",
        "odd-home",
        "hunter2",
        "janedoe",
        "janes-box",
        sys.prefix,
        str(Path(__file__).parent.parent),
        "/lab-",
    ):
        assert leak not in whole, (leak, whole[max(0, whole.find(leak) - 200) :][:400])
    assert "snippets/train_gpt.py" in found.text
    assert 'File "⟦file' in found.text or "⟦file train_gpt.fails 0+0⟧" in found.text
    assert 'File "snippets/train_gpt.py", line' in render_places(found.text, repo.root)


def test_artefacts_are_named_by_content(repo: Repository) -> None:
    body = "open('My Plot.svg', 'w').write('<svg/>')\nmeasure.artefact('My Plot.svg', 'svg')"
    found, files = transcribe(repo, body)
    digest = hashlib.sha256(b"<svg/>").hexdigest()
    name = f"one.my-plot.{digest[:10]}.svg"
    assert files == {name: b"<svg/>"}
    assert found.artefacts == [{"file": name, "kind": "svg", "bytes": 6, "sha256": digest}]


def test_scrubbed_traces_are_the_same_each_time(repo: Repository) -> None:
    body = """
    import gzip, os
    open("t.json.gz", "wb").write(gzip.compress(os.getcwd().encode()))
    measure.artefact("t.json.gz", "trace")
    """
    (first, files), (second, _) = transcribe(repo, body), transcribe(repo, body)
    assert first.artefacts == second.artefacts
    assert gzip.decompress(next(iter(files.values()))) == b"$TMP"


def test_long_messages_are_cut(repo: Repository) -> None:
    found, _ = transcribe(repo, "raise ValueError('x\\n' * 100_000)")
    assert len(found.error["message"].encode()) <= 16 * 1024
