from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from conftest import Repository

from fba_lab.place import Place, Spot, file_of, to_line, to_place

MORE = '''\
"""Doc."""
import os

class A:
    def f(self):
        def g():
            return 1
        if os:
            g()
        else:
            g(1)

@cache
@other
def h():
    try:
        a()
    except E:
        b()
    match x:
        case 1:
            c()
'''

Lines = Callable[[Path, str], list[int]]


def test_a_place_is_found_again_after_edits(repo: Repository, lines_of: Lines) -> None:
    path = repo.root / "snippets" / "train_gpt.py"
    [line] = lines_of(path, "x = scale(x)")
    place = to_place(path, line, repo.root)
    assert place == Place("train_gpt.train", 1, 0)
    repo.edit("train_gpt.py", "SIZE = 3", '"""More."""\n\n\nSIZE = 3\nMORE = 4')
    repo.edit("train_gpt.py", "    # a comment", '    """Doc."""\n    # a\n    # comment')
    [now] = lines_of(path, "x = scale(x)")
    assert now == line + 6
    assert to_line(place.definition, place.offset, repo.root) == Spot("snippets/train_gpt.py", now)


def test_module_level_methods_nested_and_decorated(repo: Repository, lines_of: Lines) -> None:
    path = repo.write(
        "more.py",
        MORE,
    )
    expected = {
        "import os": ("more.<module>", 0),
        "class A": ("more.<module>", 1),
        "return 1": ("more.A.f.g", 0),
        "def g": ("more.A.f", 0),
        "g(1)": ("more.A.f", 3),
        "@other": ("more.<module>", 2),
        "b()": ("more.h", 2),
        "c()": ("more.h", 4),
    }
    for text, (definition, offset) in expected.items():
        [line] = lines_of(path, text)
        place = to_place(path, line, repo.root)
        assert place is not None and (place.definition, place.offset) == (definition, offset), text
        assert to_line(*place[:2], repo.root, within=place.within) == Spot("snippets/more.py", line)


def test_lines_within_a_statement(repo: Repository) -> None:
    path = repo.write("more.py", "x = f(\n    1,\n    2,\n)\n")
    place = to_place(path, 3, repo.root)
    assert place == Place("more.<module>", 0, 2)
    repo.write("more.py", "x = f(\n    # one\n    1,\n    2,\n)\n")
    assert to_line("more.<module>", 0, repo.root, within=2, text="2,") == Spot(
        "snippets/more.py", 4
    )
    repo.write("more.py", "x = f(1, 2)\n")
    assert to_line("more.<module>", 0, repo.root, within=2, text="2,") == Spot(
        "snippets/more.py", 1
    )


def test_what_is_no_place(repo: Repository, tmp_path: Path) -> None:
    path = repo.root / "snippets" / "train_gpt.py"
    assert to_place(path, 1, repo.root) is None  # the docstring
    assert to_place(path, 9999, repo.root) is None
    assert to_place(tmp_path / "elsewhere.py", 1, repo.root) is None
    assert to_line("train_gpt.gone", 0, repo.root) is None
    assert to_line("train_gpt.train", 99, repo.root) is None
    assert to_line("no_module.f", 0, repo.root) is None
    assert file_of("train_gpt.gone.too", repo.root) == "snippets/train_gpt.py"
    assert file_of("examples.model_compile.one.main", repo.root) is None


def test_examples_have_places_too(repo: Repository, lines_of: Lines) -> None:
    path = repo.example("one").path
    place = to_place(path, lines_of(path, "train_gpt.train")[0], repo.root)
    assert place == Place("examples.model_compile.one.main", 0, 0)
    assert file_of(place.definition, repo.root) == "snippets/examples/model_compile/one.py"


def test_only_line_ends_of_python_end_a_line(repo: Repository) -> None:
    repo.write("odd.py", "# a\fb\u2028c\nx = 1\ny = 2\n")
    spot = to_line("odd.<module>", 1, repo.root, text="y = 2")
    assert spot == Spot("snippets/odd.py", 3)
