from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from conftest import Repository

from fba_lab import depend, example
from fba_lab.example import ROOT
from fba_lab.locate import markers
from fba_lab.syntax import BadSource, parse


def reached(
    repo: Repository, body: str, imports: str = "from snippets import train_gpt"
) -> set[str]:
    one = repo.example("one", body)
    text = one.path.read_text(encoding="utf-8")
    one.path.write_text(text.replace("from snippets import train_gpt", imports), encoding="utf-8")
    return depend.reaches(one, repo.root)


TRAIN = {"train_gpt.train", "train_gpt.STEPS", "train_gpt.scale", "train_gpt.SIZE"}
EVERYTHING = TRAIN | {
    "train_gpt.Config",
    "train_gpt.dataclass",
    "train_gpt.fails",
    "train_gpt.unused",
    "train_gpt.math",
}


@pytest.mark.parametrize(
    ("body", "imports", "expected"),
    [
        ("train_gpt.train(1)", "from snippets import train_gpt", TRAIN),
        ("t.train(1)", "from snippets import train_gpt as t", TRAIN),
        ("t.train(1)", "import snippets.train_gpt as t", TRAIN),
        ("snippets.train_gpt.train(1)", "import snippets.train_gpt", TRAIN),
        ("go(1)", "from snippets.train_gpt import train as go", TRAIN),
        ("train(1)", "from snippets.train_gpt import *", EVERYTHING),
        ("from snippets.train_gpt import train; train(1)", "", TRAIN),
        ("train_gpt.STEPS = 3", "from snippets import train_gpt", {"train_gpt.STEPS"}),
        ("print(train_gpt.SIZE)", "from snippets import train_gpt", {"train_gpt.SIZE"}),
        ("getattr(train_gpt, 'tra' + 'in')", "from snippets import train_gpt", EVERYTHING),
        ("print(vars(train_gpt))", "from snippets import train_gpt", EVERYTHING),
        ("train_gpt.no_such_name", "from snippets import train_gpt", EVERYTHING),
        ("open('snippets/train_gpt.py')", "", EVERYTHING),
        ("pass", "from snippets import train_gpt", set()),
    ],
)
def test_what_is_reached(repo: Repository, body: str, imports: str, expected: set[str]) -> None:
    assert reached(repo, body, imports) == expected


def test_follows_other_modules_of_snippets(repo: Repository) -> None:
    repo.write("kernels.py", "import torch\n\ndef fast(x):\n    return torch.abs(x)\n\nSLOW = 1\n")
    repo.edit("train_gpt.py", "import math", "import math\nfrom snippets import kernels")
    repo.edit("train_gpt.py", "return 2 * x", "return kernels.fast(2) * x")
    assert reached(repo, "train_gpt.train(1)") == TRAIN | {"kernels.fast", "kernels.torch"}
    assert reached(repo, "train_gpt.kernels.SLOW") == {"kernels.SLOW"}


def test_statements_that_run_on_import_count_but_the_guard_does_not(repo: Repository) -> None:
    one = repo.example("one", "pass")
    before = depend.key(one, repo.root)
    repo.edit("train_gpt.py", "print(train(1.0))", "print(train(2.0))")
    assert depend.key(one, repo.root) == before
    repo.edit("train_gpt.py", "STEPS = 2", "STEPS = 2\nmath.tau = scale(STEPS)")
    parts = depend.key(one, repo.root).parts
    assert {"train_gpt.<module>", "train_gpt.scale", "train_gpt.STEPS"} <= set(parts)


def test_names_set_in_another_way(repo: Repository) -> None:
    repo.edit(
        "train_gpt.py",
        "STEPS = 2",
        "STEPS = 2\nSTEPS += 1\n\n\ndef more():\n    global STEPS\n    STEPS = 4\n\n\n"
        "try:\n    import fast\nexcept ImportError:\n    fast = None\n",
    )
    keys = []
    for old, new in [("", ""), ("STEPS += 1", "STEPS += 2"), ("STEPS = 4", "STEPS = 5")]:
        repo.edit("train_gpt.py", old, new) if old else None
        keys.append(depend.key(repo.example("one"), repo.root).parts["train_gpt.STEPS"])
    assert len(set(keys)) == 3
    assert "train_gpt.fast" in reached(repo, "train_gpt.fast")


COMMENTS = [
    ("# a comment", "# another\n    # comment"),
    ('"""Twice the size."""', '"""Twice."""'),
    ('"""A trainer in small."""', ""),
    ('"""Settings."""', '"""Set."""'),
    ("return 2 * x * SIZE", "return (\n        2 * x * SIZE\n    )"),
    ("STEPS = 2\n", "STEPS = 2\n\n\n\n"),
    ("SIZE = 3\nSTEPS = 2", "STEPS = 2\nSIZE = 3"),
]


@pytest.mark.parametrize(("old", "new"), COMMENTS)
def test_comments_docstrings_and_layout_change_nothing(
    repo: Repository, old: str, new: str
) -> None:
    one = repo.example("one")
    before = depend.key(one, repo.root)
    repo.edit("train_gpt.py", old, new)
    assert depend.key(one, repo.root) == before


def test_a_statement_makes_exactly_those_that_reach_it_stale(repo: Repository) -> None:
    bodies = {
        "trains": "train_gpt.train(1)",
        "fails": "train_gpt.fails(1)",
        "pi": "train_gpt.unused()",
    }
    examples = {name: repo.example(name, body) for name, body in bodies.items()}
    before = {name: depend.key(one, repo.root) for name, one in examples.items()}
    repo.edit("train_gpt.py", "return 2 * x", "return 3 * x")
    after = {name: depend.key(one, repo.root) for name, one in examples.items()}
    changes = {name: depend.changes(before[name].parts, after[name].parts) for name in bodies}
    assert changes == {"trains": ["train_gpt.scale changed"], "fails": [], "pi": []}
    assert [name for name in bodies if before[name].hash != after[name].hash] == ["trains"]


def test_reasons_for_added_and_dropped_definitions(repo: Repository) -> None:
    one = repo.example("one")
    before = depend.key(one, repo.root).parts
    repo.edit("train_gpt.py", "range(STEPS)", "range(int(unused()))")
    assert depend.changes(before, depend.key(one, repo.root).parts) == [
        "train_gpt.STEPS is no longer reached",
        "train_gpt.math is now reached",
        "train_gpt.train changed",
        "train_gpt.unused is now reached",
    ]


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"cache": "private"}, "cache"),
        ({"raises": ("ValueError", "x")}, "raises"),
        ({"limit_s": 99, "heavy": True, "devices": ["h200"]}, None),
    ],
)
def test_what_of_lab_counts(repo: Repository, change: dict[str, object], part: str | None) -> None:
    before = depend.key(repo.example("one"), repo.root)
    after = depend.key(repo.example("one", **change), repo.root)
    assert depend.changes(before.parts, after.parts) == ([f"{part} changed"] if part else [])


def test_data_and_measure_version_count(repo: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = {"files": {"a.bin": {"sha256": "12", "tokens": 3}}, "prepare": "do it"}
    repo.write("data.json", json.dumps({"sotu": entry}))
    one = repo.example("one", data=["sotu"])
    before = depend.key(one, repo.root).parts
    repo.write("data.json", json.dumps({"sotu": entry | {"prepare": "otherwise"}}))
    assert depend.key(one, repo.root).parts == before
    entry["files"]["a.bin"]["sha256"] = "34"
    repo.write("data.json", json.dumps({"sotu": entry}))
    monkeypatch.setattr(depend, "MEASURE_VERSION", 2)
    changes = depend.changes(before, depend.key(one, repo.root).parts)
    assert changes == ["data:sotu changed", "measure changed"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, "one.py:1: no snippets/data.json"),
        ("{}", "one.py:1: snippets/data.json has no 'sotu'"),
        ("{", "snippets/data.json: not valid JSON"),
    ],
)
def test_bad_data_file(repo: Repository, text: str | None, expected: str) -> None:
    if text is not None:
        repo.write("data.json", text)
    with pytest.raises(BadSource) as caught:
        depend.key(repo.example("one", data=["sotu"]), repo.root)
    assert expected in str(caught.value) and "\n" not in str(caught.value)


def test_broken_trainer_is_one_line(repo: Repository) -> None:
    one = repo.example("one")
    repo.edit("train_gpt.py", "def scale(", "def scale((")
    with pytest.raises(BadSource, match=r"^snippets/train_gpt.py:\d+: not valid Python"):
        depend.key(one, repo.root)


def definitions_in(block: str) -> set[str]:
    """Names of the top-level definitions of our trainer that the block touches."""
    path = ROOT / "snippets" / "train_gpt.py"
    span = markers(path)[block]
    names = set()
    for node in parse(Path(path)).body:
        if node.lineno <= span.end and (node.end_lineno or 0) >= span.start:
            names |= {f"train_gpt.{name}" for name in depend.bound(node)}
    return names


@pytest.mark.parametrize("one", example.discover().values(), ids=lambda one: one.id)
def test_an_example_reaches_its_own_block(one: example.Example) -> None:
    assert depend.reaches(one) & definitions_in(one.block)


def keys(root: Path) -> dict[str, str]:
    return {one.id: depend.key(one, root).hash for one in example.discover(root).values()}


def test_an_edit_of_polar_express_concerns_those_that_reach_it(tmp_path: Path) -> None:
    shutil.copytree(
        ROOT / "snippets", tmp_path / "snippets", ignore=shutil.ignore_patterns("records")
    )
    path = tmp_path / "snippets" / "train_gpt.py"
    before, text = keys(tmp_path), path.read_text(encoding="utf-8")
    [line] = [line for line in text.splitlines() if line.startswith("def polar_express(")]
    path.write_text(text.replace(line, f"# a comment\n\n{line}"), encoding="utf-8")
    assert keys(tmp_path) == before
    [body] = [node for node in parse(path).body if getattr(node, "name", "") == "polar_express"]
    lines = path.read_text(encoding="utf-8").splitlines()
    lines.insert((body.end_lineno or 0) - 1, "    gradient_NRC = +gradient_NRC")
    path.write_text("\n".join(lines), encoding="utf-8")
    after = keys(tmp_path)
    reaching = {
        one.id
        for one in example.discover(tmp_path).values()
        if "train_gpt.polar_express" in depend.reaches(one, tmp_path)
    }
    assert {name for name in before if before[name] != after[name]} == reaching
    assert 0 < len(reaching) < len(before)


@pytest.mark.parametrize("text", ["[]", '{"sotu": 1}', "[" * 100_000, None])
def test_odd_data_json_is_one_line(repo: Repository, text: str | None) -> None:
    one = repo.example("one", data=["sotu"])
    if text is None:
        (repo.root / "snippets" / "data.json").mkdir()
    else:
        repo.write("data.json", text)
    with pytest.raises(BadSource, match=r"data\.json"):
        depend.key(one, repo.root)
