"""prepare_data: the bytes it writes, and that nothing half-written is ever found.

    pytest tests/test_prepare_data.py

The failures are provoked in real processes: killed, interrupted, given files that can't be read.
"""

import gzip
import hashlib
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

from snippets import prepare_data, train_gpt

ROOT = Path(prepare_data.__file__).parents[1]
SCRIPT = Path(prepare_data.__file__)


def start(*arguments, path: Path = ROOT, **options) -> subprocess.Popen:
    environment = {**os.environ, "PYTHONPATH": str(path)}
    return subprocess.Popen(
        [sys.executable, str(SCRIPT), *map(str, arguments)],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def run(*arguments, **options) -> tuple[int, str, str]:
    process = start(*arguments, **options)
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def last_line(text: str) -> str:
    """The message below the progress bars."""
    return text.replace("\r", "\n").strip().splitlines()[-1]


@pytest.fixture
def texts(tmp_path) -> Path:
    folder = tmp_path / "texts"
    (folder / "inner").mkdir(parents=True)
    (folder / "b.txt").write_text("Hello world")
    (folder / "a.md").write_text("The quick brown fox")
    (folder / "inner" / "c.txt").write_text("<|endoftext|> is only text here")
    (folder / "picture.png").write_bytes(b"\xff\xd8")
    (folder / "empty.txt").write_text("  \n")
    return folder


def test_constants_are_those_of_the_trainer():
    for name in ("SHARD_MAGIC", "SHARD_VERSION", "SHARD_HEADER", "BOS"):
        assert getattr(prepare_data, name) == getattr(train_gpt, name)


def test_encoding_is_gpt2s():
    encoding = prepare_data.gpt2_encoding()
    assert encoding.encode_ordinary("Hello world") == [15496, 995]
    assert encoding.encode_ordinary("The quick brown fox") == [464, 2068, 7586, 21831]
    assert encoding.n_vocab == 50_257
    text = "Naïve café – don't  stop\n\n12345 !?"
    assert encoding.decode(encoding.encode_ordinary(text)) == text


def test_shards_of_own_text(texts, tmp_path):
    out = tmp_path / "new" / "shards"
    code, printed, _ = run("--source", "text", texts, "--out", out)
    assert code == 0
    names = sorted(path.name for path in out.iterdir())
    assert names == ["text_train_000000.bin", "text_val_000000.bin"]
    val = train_gpt.load_shard(out / "text_val_000000.bin")
    train = train_gpt.load_shard(out / "text_train_000000.bin")
    assert val.tolist() == [50_256, 464, 2068, 7586, 21831]  # a.md is the first by name
    assert train[:3].tolist() == [50_256, 15496, 995]
    # What looks like the special token in a text is not one: it would split a document.
    assert (train == 50_256).sum() == 2
    assert f"{out / 'text_val_000000.bin'}: 5 tokens" in printed
    header = np.frombuffer((out / "text_val_000000.bin").read_bytes()[:1024], dtype="<i4")
    assert header[:3].tolist() == [20_240_520, 1, 5] and not header[3:].any()


def test_progress_is_shown(texts, tmp_path):
    _, _, err = run("--source", "text", texts, "--out", tmp_path / "out")
    assert "text train" in err and "100%" in err and "documents" in err


def test_the_same_text_gives_the_same_bytes(texts, tmp_path):
    for out in (tmp_path / "one", tmp_path / "two"):
        assert run("--source", "text", texts, "--out", out)[0] == 0
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


def test_sotu_is_what_data_json_says(tmp_path):
    """Bytes, counts and the command, so that a record made elsewhere was made on these tokens."""
    listed = json.loads((ROOT / "snippets" / "data.json").read_text())["sotu"]
    code, _, err = run("--source", "sotu", "--out", tmp_path)
    assert code == 0, err
    found = {
        path.name: {
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            "tokens": len(train_gpt.load_shard(path)),
        }
        for path in tmp_path.iterdir()
    }
    assert found == listed["files"]
    assert listed["prepare"] == "python snippets/prepare_data.py --source sotu --out data/sotu"


@pytest.fixture
def dictionary(tmp_path) -> Path:
    """A file like the real one: a licence at the top, then entries by the alphabet."""
    words = [f"{letter}{number:02}" for letter in "ABCDEFGH" for number in range(40)]
    entry = '{0} \\{0}*ing"\\, n.; pl.\n   {{{0}s}}.\n   1. What {0} is.\n      [1913 Webster]\n\n'
    text = "\n\n00-database-url\n   ftp://x\n\nfree software; \x92tis.\n\n   --Locke.\n"
    text += "".join(entry.format(word) + "   2. More of it. " * 30 + "\n\n" for word in words)
    path = tmp_path / "small.dict.dz"
    path.write_bytes(gzip.compress(text.rstrip("\n").encode("latin-1")))
    return path


def test_webster_documents_are_whole_entries_in_an_order_of_their_own(dictionary):
    documents = prepare_data.webster_documents(dictionary)
    heads = [[line[:3] for line in d.splitlines() if "\\" in line] for d in documents]
    assert all(re.match(r'[A-H]\d\d \\[A-H]\d\d\*ing"\\, n', d) for d in documents)
    assert sorted(itertools.chain(*heads)) == [f"{a}{n:02}" for a in "ABCDEFGH" for n in range(40)]
    assert all(part == sorted(part) for part in heads)  # neighbours stay together, in order
    assert [part[0] for part in heads] != sorted(part[0] for part in heads)
    assert not any("free software" in d or "Locke" in d for d in documents)
    assert sum(len(d) < prepare_data.WEBSTER_DOCUMENT for d in documents) <= 1  # the last
    assert max(map(len, documents)) < prepare_data.WEBSTER_DOCUMENT + 700


def test_webster_shards(dictionary, tmp_path):
    """Every tenth document is for validation, and two runs give the same bytes."""
    for out in (tmp_path / "one", tmp_path / "two"):
        assert run("--source", "webster", dictionary, "--out", out)[0] == 0
    names = ["webster_train_000000.bin", "webster_val_000000.bin"]
    assert sorted(path.name for path in (tmp_path / "one").iterdir()) == names
    counts = []
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
        counts.append((train_gpt.load_shard(tmp_path / "one" / name) == prepare_data.BOS).sum())
    assert sum(counts) == len(prepare_data.webster_documents(dictionary))
    assert counts[1] == -(-sum(counts) // prepare_data.VAL_SHARE)


def test_webster_is_what_data_json_says(tmp_path):
    """As for sotu, where Debian's package is installed."""
    if not prepare_data.WEBSTER_FILE.exists():
        pytest.skip("needs `apt-get install dict-gcide`")
    listed = json.loads((ROOT / "snippets" / "data.json").read_text())["webster"]
    code, _, err = run("--source", "webster", "--out", tmp_path)
    assert code == 0, err
    for name, file in listed["files"].items():
        assert hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() == file["sha256"]
        assert len(train_gpt.load_shard(tmp_path / name)) == file["tokens"]
    assert sorted(listed["files"]) == sorted(path.name for path in tmp_path.iterdir())
    command = "python snippets/prepare_data.py --source webster --out data/webster"
    assert listed["prepare"] == command


def test_a_dictionary_that_is_not_there_or_not_one(dictionary, tmp_path):
    """One line that says what, where, and what to do."""
    whole = dictionary.read_bytes()
    files = {
        "nowhere.dz": None,
        "plain.dz": b"Aa \\A\\, n.",
        "cut.dz": whole[:-9],
        "other.dz": gzip.compress(b"no entries here\n" * 999),
        "binary.dz": gzip.compress(bytes(range(256))),
        "flipped.dz": whole[:200] + bytes(9) + whole[209:],
    }
    for name, content in files.items():
        if content is not None:
            (tmp_path / name).write_bytes(content)
        code, printed, err = run("--source", "webster", tmp_path / name, "--out", tmp_path / "out")
        assert code == 2 and printed == "", name
        message = last_line(err)
        assert message.startswith(f"prepare_data.py: {tmp_path / name}: "), message
        assert "`apt-get install dict-gcide`, or name a copy" in message
        assert "Traceback" not in err
        assert not list((tmp_path / "out").iterdir())
    code, _, err = run("--source", "webster", dictionary, dictionary, "--out", tmp_path / "out")
    assert code == 2 and "one PATH at most; 2 were given" in last_line(err)


def test_shards_are_cut_at_their_size_and_lose_nothing():
    documents = [np.arange(n, dtype=np.uint16) for n in (3, 9, 1, 4, 0, 7)]
    shards = list(prepare_data.cut_to_shards(iter(documents), 5))
    assert [len(shard) for shard in shards] == [5, 5, 5, 5, 4]
    assert np.concatenate(shards).tolist() == np.concatenate(documents).tolist()
    assert list(prepare_data.cut_to_shards([], 5)) == []


def test_a_shorter_second_run_removes_the_old_rest(texts, tmp_path):
    out = tmp_path / "out"
    run("--source", "text", texts, "--out", out)
    old, other = out / "text_train_000001.bin", out / "sotu_train_000000.bin"
    for path in (old, other):
        path.write_bytes(b"old")
    run("--source", "text", texts, "--out", out)
    assert not old.exists() and other.exists()


def test_tokens_limits_each_split(texts, tmp_path):
    for number in range(40):
        (texts / f"n{number:02}.txt").write_text("word " * 50)
    assert run("--source", "text", texts, "--tokens", 100, "--out", tmp_path / "o")[0] == 0
    train = train_gpt.load_shard(tmp_path / "o" / "text_train_000000.bin")
    assert 100 <= len(train) < 160


# --- What can go wrong ---


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--source", "text"], "name at least one file or folder"),
        (["--source", "text", "nowhere.txt"], "nowhere.txt: no such file or folder; check the"),
        (["--source", "text", "{texts}/b.txt"], "b.txt: 1 documents with text in them, two are"),
        (["--source", "text", "{texts}/picture.png", "{texts}"], "picture.png: byte 0 isn't UTF-8"),
        (["--source", "sotu", "x.txt"], "--source sotu takes no PATH"),
        (["--source", "web"], "invalid choice: 'web'"),
        (["--source", "sotu", "--tokens", "0"], "--tokens 0: at least 1 is needed"),
    ],
)
def test_wrong_use_ends_with_one_line_and_code_2(texts, tmp_path, arguments, message):
    arguments = [argument.format(texts=texts) for argument in arguments]
    code, printed, err = run(*arguments, "--out", tmp_path / "out")
    assert code == 2 and printed == ""
    assert message in last_line(err) and "Traceback" not in err
    assert not list(tmp_path.glob("out/*"))


def test_out_that_cannot_be_a_folder(texts, tmp_path):
    (tmp_path / "file").write_text("")
    code, _, err = run("--source", "text", texts, "--out", tmp_path / "file")
    assert code == 2
    assert "file: can't be made" in last_line(err)


def test_a_package_that_is_not_there():
    with pytest.raises(prepare_data.UserError, match="nosuchpackage isn't installed; pip install"):
        prepare_data.package_file("nosuchpackage", "x")
    with pytest.raises(prepare_data.UserError, match=r"nothing\.txt: not in the installed package"):
        prepare_data.package_file("sotu", "nothing.txt")


def test_a_full_disk_leaves_nothing(tmp_path):
    """The limit on the size of files stands in for a disk without room."""
    code = f"""if True:
        import resource, signal, sys
        from pathlib import Path
        import numpy as np
        from snippets import prepare_data
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
        try:
            path = Path({str(tmp_path)!r}) / "s_train_000000.bin"
            prepare_data.write_shard(path, np.zeros(5000, dtype=np.uint16))
        except prepare_data.UserError as error:
            print(error)
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60
    )
    assert "s_train_000000.bin: can't be written (File too large)" in done.stdout, done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def slow_fineweb(tmp_path) -> Path:
    """A folder with a package `datasets` that streams pages for ever, slowly after the first."""
    package = tmp_path / "path" / "datasets.py"
    package.parent.mkdir()
    package.write_text(
        textwrap.dedent("""
        import os, time
        def load_dataset(path, **options):
            assert options["streaming"] and options["split"] == "train"
            if os.environ.get("OFFLINE"):
                raise RuntimeError("no route to hub\\nsecond line")
            def pages():
                while True:
                    yield {"text": "some words on a page " * 20}
                    time.sleep(float(os.environ.get("PAUSE", "0")))
            return pages()
    """)
    )
    return package.parent


def test_fineweb_streams_until_enough(slow_fineweb, tmp_path):
    out = tmp_path / "out"
    code, _, err = run("--source", "fineweb", "--tokens", 5000, "--out", out, path=slow_fineweb)
    assert code == 0, err
    sizes = {path.name: len(train_gpt.load_shard(path)) for path in out.iterdir()}
    assert sorted(sizes) == ["fineweb_train_000000.bin", "fineweb_val_000000.bin"]
    assert 500 <= sizes["fineweb_val_000000.bin"] < 700
    assert 5000 <= sum(sizes.values()) < 5200


def test_fineweb_without_network_or_package(slow_fineweb, tmp_path, monkeypatch):
    monkeypatch.setenv("OFFLINE", "1")
    code, _, err = run("--source", "fineweb", "--out", tmp_path / "out", path=slow_fineweb)
    assert code == 2
    assert "the hub can't be reached (no route to hub); check the network" in last_line(err)
    (slow_fineweb / "datasets.py").write_text("raise ImportError('absent')")
    code, _, err = run("--source", "fineweb", "--out", tmp_path / "out", path=slow_fineweb)
    assert code == 2 and "needs `pip install datasets`" in last_line(err)
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_run_leaves_no_half_shard(slow_fineweb, tmp_path, monkeypatch, number):
    """The old shards stay as they were; a later run clears what even SIGKILL may leave."""
    monkeypatch.setenv("PAUSE", "0.05")
    out = tmp_path / "out"
    out.mkdir()
    old = out / "fineweb_val_000000.bin"
    prepare_data.write_shard(old, np.arange(10, dtype=np.uint16))
    (out / ".fineweb_val_000000.bin.abc.part").write_bytes(b"left by an earlier kill")
    process = start("--source", "fineweb", "--tokens", 10**9, "--out", out, path=slow_fineweb)
    assert "fine" in process.stderr.read(7)  # the progress bar: it is at work
    time.sleep(0.3)
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert process.returncode == (-9 if number == signal.SIGKILL else 130)
    assert [path.name for path in out.iterdir()] == [old.name]
    assert train_gpt.load_shard(old).tolist() == list(range(10))
    if number != signal.SIGKILL:
        assert last_line(err) == "prepare_data.py: interrupted; no half-written shard was left"


def test_interrupted_in_the_middle_of_writing(tmp_path):
    """A kill while the bytes go out: the temporary file goes, the old shard stays."""
    code = f"""if True:
        import os, signal
        from pathlib import Path
        import numpy as np
        from snippets import prepare_data
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        os.fsync = lambda handle: os.kill(os.getpid(), signal.SIGTERM)
        path = Path({str(tmp_path)!r}) / "s_train_000000.bin"
        path.write_text("old")
        try:
            prepare_data.write_shard(path, np.zeros(5000, dtype=np.uint16))
        except KeyboardInterrupt:
            print("interrupted")
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "interrupted\n", done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["s_train_000000.bin"]
    assert (tmp_path / "s_train_000000.bin").read_text() == "old"


def test_text_that_the_tokenizer_cannot_take(tmp_path):
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("x" + " " * 1_000_000 + "y")
    code, _, err = run("--source", "text", tmp_path, "--out", tmp_path / "out")
    assert code == 2 and "too much for the tokenizer" in last_line(err)
    assert "Traceback" not in err


def test_paths_that_the_system_refuses(texts, tmp_path):
    code, _, err = run("--source", "text", "x" * 5000, "--out", tmp_path)
    assert code == 2 and "no such file or folder" in last_line(err)
    (tmp_path / "text_train_000009.bin").mkdir()
    code, _, err = run("--source", "text", texts, "--out", tmp_path)
    assert code == 2 and "text_train_000009.bin: can't be removed" in last_line(err)


def test_a_reader_of_stdout_that_left(texts, tmp_path):
    line = f"{sys.executable} {prepare_data.__file__} --source text {texts} --out {tmp_path}"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {line} | true"], capture_output=True, text=True
    )
    assert done.returncode == 1 and "Broken" not in done.stderr
