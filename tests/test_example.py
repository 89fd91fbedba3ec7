from __future__ import annotations

import sys

import pytest
from conftest import Repository

from fba_lab import example
from fba_lab.example import ROOT, BadExample, UnknownExample, discover


def message(repo: Repository) -> str:
    with pytest.raises(BadExample) as caught:
        example.discover(repo.root)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_reads_what_is_declared(repo: Repository) -> None:
    repo.example("first_steps", main=True, raises=("ValueError", "cannot"), cache="private")
    repo.example("other")
    found = example.discover(repo.root)
    assert list(found) == ["model-compile/first-steps", "model-compile/other"]
    one = found["model-compile/first-steps"]
    assert (one.block, one.name, one.title, one.doc) == (
        "model-compile",
        "first-steps",
        "A title",
        "What it shows.",
    )
    assert one.raises == ("ValueError", "cannot")
    assert one.file == "snippets/examples/model_compile/first_steps.py"
    assert (found["model-compile/other"].cache, found["model-compile/other"].data) == ("shared", ())


def test_unknown_example_offers_the_nearest(repo: Repository) -> None:
    repo.example("first_steps", main=True)
    with pytest.raises(UnknownExample, match="did you mean model-compile/first-steps"):
        example.get("model-compile/fist-steps", repo.root)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"limit": 3}, "9: LAB has no key 'limit'; did you mean limit_s?"),
        ({"limit_s": "3"}, "9: LAB has limit_s='3'; give a number of seconds above 0"),
        ({"limit_s": True}, "9: LAB has limit_s=True; give a number of seconds above 0"),
        ({"devices": []}, "9: LAB has devices=[]; give a list of devices"),
        ({"devices": "cpu"}, "9: LAB has devices='cpu'; give a list of devices"),
        ({"main": 1}, "9: LAB has main=1; give True or False"),
        ({"cache": "none"}, '9: LAB has cache=\'none\'; give "shared" or "private"'),
        ({"data": [3]}, "9: LAB has data=[3]; give a list of names"),
        ({"raises": ["ValueError"]}, "9: LAB has raises=['ValueError']; give None or"),
        ({"block": "model-compil"}, "did you mean model-compile"),
        ({"block": "softcap"}, "block 'softcap' belongs in snippets/examples/softcap"),
    ],
)
def test_mistakes_in_lab(repo: Repository, change: dict[str, object], expected: str) -> None:
    path = repo.examples / "model_compile" / "bad.py"
    path.write_text(repo.source(**change), encoding="utf-8")
    text = message(repo)
    assert text.startswith("snippets/examples/model_compile/bad.py:9: ")
    assert expected in text


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('"""A title\n\nWhat it shows.\n"""', "", "bad.py:1: no docstring"),
        ("LAB = dict(", "LUB = dict(", "bad.py:1: no LAB"),
        ("LAB = dict(", "LAB = make(", "bad.py:9: LAB must be written as dict("),
        ("devices=['cpu']", "devices=names()", "devices in LAB is computed"),
        ("devices=['cpu'], ", "", "LAB lacks 'devices'"),
        ("def main", "def other", "no main()"),
        ("if __name__", "if __file__", "nothing calls main()"),
        ("def main() -> None:", "def main( -> None:", "bad.py:12: not valid Python"),
        ("def main", "LAB = dict()\ndef main", "bad.py:12: LAB is assigned twice"),
        ("A title", "A \0 title", "bad.py:1: not valid Python"),
    ],
)
def test_mistakes_in_the_file(repo: Repository, old: str, new: str, expected: str) -> None:
    path = repo.examples / "model_compile" / "bad.py"
    source = repo.source()
    assert old in source
    path.write_text(source.replace(old, new), encoding="utf-8")
    assert expected in message(repo)


def test_exactly_one_main_example(repo: Repository) -> None:
    repo.example("one", main=True)
    repo.example("two", main=True)
    assert "two.py:1: block 'model-compile' has 2 examples with main=True" in message(repo)
    repo.example("one")
    repo.example("two")
    assert "one.py:1: no example of block 'model-compile' says main=True" in message(repo)


def test_two_files_of_one_id(repo: Repository) -> None:
    repo.example("a_b", main=True)
    repo.example("a-b")
    with pytest.raises(BadExample, match="has the same id; rename one"):
        example.discover(repo.root)


@pytest.mark.parametrize("kind", ["folder", "dangling", "loop", "deep"])
def test_files_that_cannot_be_read(repo: Repository, kind: str) -> None:
    path = repo.examples / "model_compile" / "x.py"
    if kind == "folder":
        path.mkdir()
    elif kind == "deep":
        path.write_text("-" * 100_000 + "1")
    else:
        path.symlink_to(path if kind == "loop" else path.with_name("nowhere"))
    with pytest.raises(BadExample, match=r"model_compile/x\.py"):
        example.discover(repo.root)


@pytest.mark.parametrize("value", ["{[]: 1}", "-" * 100 + "[]"])
def test_values_that_are_no_literals(repo: Repository, value: str) -> None:
    text = repo.source().replace("['cpu']", value)
    path = repo.examples / "model_compile" / "x.py"
    path.write_text(text)
    with pytest.raises(BadExample, match="devices in LAB is computed"):
        example.read(path, repo.root)


def test_limit_is_finite(repo: Repository) -> None:
    with pytest.raises(BadExample, match="limit_s=inf"):
        path = repo.examples / "model_compile" / "x.py"
        path.write_text(repo.source().replace("limit_s=20", "limit_s=1e999"))
        example.read(path, repo.root)


def test_no_example_hides_a_module_of_the_standard_library() -> None:
    """`python FILE` puts the example's folder first: a profile.py there breaks torch's import."""
    names = {one.path.stem for one in discover(ROOT).values()}
    assert names and not names & sys.stdlib_module_names
