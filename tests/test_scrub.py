from __future__ import annotations

import getpass
import re
import socket
import sys
from pathlib import Path

import pytest
from conftest import Repository

from fba_lab.scrub import TEXT_LIMIT, cut, render_places, scrub


def test_paths_of_the_run_the_repository_and_the_machine(
    repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/srv/people/jane")
    text = (
        f"{repo.root}/snippets/train_gpt.py {repo.root} /tmp/lab-1/work/x /tmp/lab-1/cache/y "
        f"{sys.prefix}/bin/python /srv/people/jane/.bashrc /home/joe/x /Users/ann /tmp/lab-12"
    )
    shown = scrub(text, {"/tmp/lab-1/work": "$TMP", "/tmp/lab-1/cache": "$CACHE"}, repo.root)
    assert shown == (
        "snippets/train_gpt.py . $TMP/x $CACHE/y $PYTHON/bin/python $HOME/.bashrc "
        "$HOME/x $HOME /tmp/lab-12"
    )


def test_links_are_known_by_both_names(repo: Repository, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(repo.root)
    assert scrub(f"{link}/a {repo.root}/a", {}, link) == "a a"


def test_user_and_host_names_go_but_not_parts_of_words(
    repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "ada-box.corp.example")
    monkeypatch.setattr(getpass, "getuser", lambda: "adal")
    text = "torchinductor_adal adalbert ada-box ada-box.corp.example adal@x"
    assert scrub(text, {}, repo.root) == "torchinductor_$USER adalbert $HOST $HOST $USER@x"
    monkeypatch.setattr(getpass, "getuser", lambda: "root")
    assert scrub("square root", {}, repo.root) == "square root"


@pytest.mark.parametrize(
    ("form", "number"), [('File "{}", line {}, in train', 1), ("at {}:{}: warning", 1)]
)
def test_lines_of_snippets_move_with_the_code(repo: Repository, form: str, number: int) -> None:
    path = repo.root / "snippets" / "train_gpt.py"
    lines = path.read_text().splitlines()
    line = lines.index("        x = scale(x)") + 1
    kept = scrub(form.format(path, line), {}, repo.root)
    assert str(line) not in re.sub(r"⟦.*⟧", "", kept)
    assert render_places(kept, repo.root) == form.format("snippets/train_gpt.py", line)
    repo.edit("train_gpt.py", "SIZE = 3", "SIZE = 3\n\n\n\nMORE = 1")
    assert render_places(kept, repo.root) == form.format("snippets/train_gpt.py", line + 4)
    repo.edit("train_gpt.py", "def train(", "def retrain(")
    assert render_places(kept, repo.root) == form.format("snippets/train_gpt.py", "?")


@pytest.mark.parametrize("left", [1, 2, -2])
def test_the_end_of_a_shortened_path_goes_too(repo: Repository, left: int) -> None:
    end = f"{repo.root}/"[left:]
    assert scrub(f"layer == 7  # {end}snippets/no.py:3 in mix", {}, repo.root) == (
        "layer == 7  # snippets/no.py:3 in mix"
    )


def test_lines_that_are_none_stay(repo: Repository) -> None:
    for text in ("snippets/train_gpt.py:1", "snippets/no.py:3", "othersnippets/train_gpt.py:9"):
        assert scrub(text, {}, repo.root) == text


def test_lone_surrogates_can_be_written(repo: Repository) -> None:
    scrub("a \ud800 b", {}, repo.root).encode()


def test_cut_says_what_is_missing() -> None:
    assert cut("short\n") == "short\n"
    lines = "".join(f"line {n}\n" for n in range(20_000))
    shown = cut(lines)
    assert len(shown.encode()) <= TEXT_LIMIT
    head, note, tail = re.split(r"(\n\[\.\.\. [\d,]+ bytes left out here \.\.\.\]\n)", shown)
    assert lines.startswith(head + "\n") and lines.endswith("\n" + tail)
    missing = int(re.sub(r"\D", "", note))
    assert len(head) + len(tail) + missing == len(lines)


def test_cut_of_what_was_cut_before() -> None:
    shown = cut("first\npart" + "ial\nlast\n", 1000, len("first\npart"))
    assert shown == "first\n[... 1,009 bytes left out here ...]\nlast\n"


def test_cut_of_one_long_line_and_of_wide_letters() -> None:
    for text in ("x" * 10**6, "é" * 10**6, "🙂" * 10**5):
        shown = cut(text)
        assert len(shown.encode()) <= TEXT_LIMIT and "�" not in shown


def test_what_differs_in_every_log_line_goes(repo: Repository) -> None:
    text = (
        "W1201 02:32:58.944000 32344 torch/_dynamo/convert_frame.py:1994] [0/8] limit\n"
        "USDT:2026-12-01 02:35:03 32595:32595 SyncActivityProfilerHandler.cpp:52] profiler_start\n"
        "pair 9: W1201 02:32:58.944000 32344 torch/_dynamo/convert_frame.py:1994] limit\n"
        "step 1201 02:32:58 USDT: kept\n"
    )
    assert scrub(text, {}, repo.root) == (
        "W torch/_dynamo/convert_frame.py:1994] [0/8] limit\n"
        "pair 9: W torch/_dynamo/convert_frame.py:1994] limit\nstep 1201 02:32:58 USDT: kept\n"
    )


def test_the_host_in_a_trace_goes_even_when_its_name_is_short(repo: Repository) -> None:
    text = '{"host_name": "vm", "name": "vm"}'
    assert scrub(text, {}, repo.root) == '{"host_name": "$HOST", "name": "vm"}'
