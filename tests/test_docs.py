"""Pages type no numbers and compare nothing by themselves; and the check that says so."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fba_lab import wording

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("page", wording.pages(ROOT), ids=lambda path: path.name)
def test_page_says_nothing_that_it_has_not_looked_up(page: Path) -> None:
    found = [one.show(page.relative_to(ROOT).as_posix()) for one in wording.in_file(page)]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A step takes 12 ms.", ["12 ms"]),
        ("A step takes ≈12.5\nms.", ["12.5 ms"]),
        ("It takes 3× as many, or 2x, or 2 x.", ["3×", "2x", "2 x"]),
        ("Of 1,024 tokens, 40% are new.", ["1,024 tokens", "40%"]),
        ("Ten times in two seconds.", ["Ten times", "two seconds"]),
        (
            "An 11-layer model reads 3.35 TB/s, or 5 tokens/s.",
            ["11-layer", "3.35 TB/s", "5 tokens/s"],
        ),
        ("It ends at a loss of 3.28, a ratio of 1.04", ["3.28", "1.04"]),
        ("On torch 2.11 and 2.13 it is 0.5; 3.5x.", ["0.5", "3.5x"]),
        ("On torch 2.13 it takes 2.13 s.", ["2.13 s"]),
        ("Is it 12 ms?", ["12 ms"]),
        ("It takes 12 ms. {{ claim('a/b', 'c > d') }}", ["12 ms"]),
        ("!!! note\n\n    They say “12 ms”.", ["12 ms"]),
        ("!!! belief “a”\n\nAfter it: “12 ms”.", ["12 ms"]),
        ('!!! belief "It takes 12 ms"', ["12 ms"]),
        ("## Credits\n\n*Made in 12 ms*, in 13 ms\n\n## Then\n\n*14 ms*", ["13 ms", "14 ms"]),
    ],
)
def test_typed_numbers_are_found(text: str, words: list[str]) -> None:
    assert [one.word for one in wording.findings(text)] == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The compiled one is faster.", ["faster"]),
        ("It took {{ metric('a/b', 'c') }}, which is less.", ["less"]),
        ("It needs more\nmemory and takes longer.", ["more", "takes longer"]),
        ("It is as fast, at twice the size: a speed-up.", ["as fast", "twice the", "speed-up"]),
        ("Compiling halves it, outperforms all.", ["halves", "outperforms"]),
        ("The peak of memory falls.", ["falls"]),
        ("Is it faster? It is faster.", ["faster"]),
        ("A third of the time, orders of magnitude.", ["orders of magnitude", "A third"]),
        ("- faster {{ claim('a/b', 'c > d') }}\n- slower", ["slower"]),
        ("Faster.\n\n{{ claim('a/b', 'c > d') }}", ["Faster"]),
        ("1. Faster.\n2. Claimed: {{ claim('a/b', 'c > d') }}", ["Faster"]),
        ('!!! note "It is faster"\n\n    {{ claim("a/b", "c > d") }}', ["faster"]),
        ("# Faster\n{{ claim('a/b', 'c > d') }}", ["Faster"]),
        ("It is faster. <!-- not measured: -->", ["faster"]),
        ("It is faster. <!-- measured by hand -->", ["faster"]),
    ],
)
def test_comparisons_without_a_claim_are_found(text: str, words: list[str]) -> None:
    assert [one.word for one in wording.findings(text)] == words


@pytest.mark.parametrize(
    "text",
    [
        "A longer explanation, more than one graph, the larger of two, and no longer in time.",
        "The largest value is {{ metric('a/b', 'c') }}, the shortest row.",
        "At least two at a time, one more time, the same time more or less. A larger window.",
        "Two flags, ten training steps, step 0, page 3 of CUDA 12.8, the H200, bf16, 2026-11-30.",
        "See arXiv:2505.16932 for a scale of `0.1`.",
        "It ran on torch 2.13 and Python 3.11, in `12 ms`, see [it](https://a.b/12%20ms).",
        "It takes {{ metric('a/b', 'c') }} for {{ code('Config.layers') }} layers.",
        "It is faster {{ metric('a/b', 'c') }}.\n{{ claim('a/b', 'c > d') }}\nTwice as fast.",
        '??? question "Is it faster, or does it take more memory?"',
        '!!! belief "They say: “2.4× faster”"\n\n    It is “twice as fast, 3 ms”? It is not.',
        "Half a byte is faster, 4 bits in 2 bytes. <!-- not measured: arithmetic -->",
        "## Credits and sources\n\n- A. Author, *A Faster Way in 12 ms*.",
        "```sh\nfaster 12 ms\n```\n\n    It stays.",
        "It is {{ metric('a/b', 'c', field='n') }} seeds.",
    ],
)
def test_ordinary_prose_passes(text: str) -> None:
    assert wording.findings(text) == []


def test_lines_are_those_of_the_page() -> None:
    text = "---\ntitle: a\n---\n\n# A\n\n```sh\n1 ms\n```\n\n- one\n  two\n  3 ms\n- faster\n"
    assert [(one.line, one.word) for one in wording.findings(text)] == [
        (13, "3 ms"),
        (14, "faster"),
    ]


def test_texts_that_a_fence_hands_over_type_no_numbers_either() -> None:
    fence = '```python exec="true"\nfrom fba_lab import pages\n{}\n```'
    call = 'pages.block("a", notes={"about 2 ms": "it takes 3 ms"})'
    found = wording.findings(fence.format(call))
    assert [(one.line, one.word) for one in found] == [(3, "3 ms")]
    assert wording.findings(fence.format("pages.block(")) == []


def test_notebooks_are_read_by_their_markdown(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "code", "metadata": {}, "source": ["# 12 ms\n"]},
        {"cell_type": "markdown", "metadata": {}, "source": ["Fine.\n", "12 ms\n"]},
    ]
    notebook = tmp_path / "a.ipynb"
    notebook.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4}))
    assert [one.show("a.ipynb") for one in wording.in_file(notebook)] == [
        f"a.ipynb: cell 2: “12 ms” {wording.TYPED_TODO}"
    ]


def test_a_page_of_one_sentence_takes_no_minutes() -> None:
    start = time.monotonic()
    assert len(wording.findings("more time " * 20_000)) == 20_000
    assert time.monotonic() - start < 20


def test_command_prints_findings_with_their_place(tmp_path: Path) -> None:
    (tmp_path / "good.md").write_text("Good. <!-- not measured: a test -->\n")
    (tmp_path / "bad.md").write_text("\nIt takes 12 ms.\n")
    (tmp_path / "odd.ipynb").write_text("{")

    def run(*files: str) -> subprocess.CompletedProcess:
        command = [sys.executable, "-m", "fba_lab", "wording", *files]
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)

    good, bad, odd = run("good.md"), run("good.md", "bad.md"), run("odd.ipynb")
    assert (good.returncode, good.stdout) == (0, "1 pages, 0 findings, 1 exceptions\n")
    assert bad.stdout.splitlines()[0] == f"bad.md:2: “12 ms” {wording.TYPED_TODO}"
    assert (bad.returncode, odd.returncode) == (1, 2)
    assert odd.stderr.startswith("fba_lab: odd.ipynb:1: ")
