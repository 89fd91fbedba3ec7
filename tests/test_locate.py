from __future__ import annotations

from pathlib import Path

import pytest

from fba_lab import catalogue
from fba_lab.example import ROOT
from fba_lab.locate import Location, locate, markers
from fba_lab.syntax import BadSource

TRAINER = ROOT / "snippets" / "train_gpt.py"


@pytest.fixture(scope="module")
def ours() -> dict[str, Location]:
    return locate(TRAINER)


@pytest.mark.parametrize("block", catalogue.IDS)
def test_our_own_file_by_structure_and_by_marker(block: str, ours: dict[str, Location]) -> None:
    location, span = ours[block], markers(TRAINER)[block]
    assert location.status == "found", location
    assert [(one.start, one.end) for one in location.spans] == [(span.start, span.end)]


def test_markers_are_not_needed(tmp_path: Path) -> None:
    lines = TRAINER.read_text(encoding="utf-8").splitlines()
    bare = tmp_path / "train_gpt.py"
    bare.write_text("\n".join(line for line in lines if "--8<--" not in line), encoding="utf-8")
    found = locate(bare)
    assert {one.status for one in found.values()} == {"found"}
    span = found["softcap"].spans[0]
    assert "def softcap" in "\n".join(bare.read_text().splitlines()[span.start - 1 : span.end])


def test_absent_and_several(tmp_path: Path) -> None:
    path = tmp_path / "theirs.py"
    path.write_text(
        "import torch\n"
        "model = GPT()\n"
        "# whole model\n"
        "model: object = torch.compile(model, dynamic=False)\n"
        "@torch.compile(dynamic=False)\n"
        "def mlp(x):\n    return x.relu().square()\n"
        "class Other:\n    def mlp(self, x):\n        return x.relu().square()\n"
    )
    found = locate(path)
    assert [(one.start, one.end) for one in found["model-compile"].spans] == [(3, 4)]
    assert found["model-build"].status == "found"
    assert found["polar-express"].status == "absent"
    several = found["relu2-mlp"]
    assert several.status == "several" and "first" in several.note
    assert [(one.start, one.end, one.primary) for one in several.spans] == [
        (5, 7, True),
        (9, 10, False),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# --8<-- [start:a]\nx = 1\n", ":1: marker [start:a] is never closed"),
        ("x = 1\n# --8<-- [end:a]\n", ":2: marker [end:a] has no partner"),
        ("# --8<-- [start:a]\n\n# --8<-- [end:a]\n", ":1: nothing between"),
    ],
)
def test_broken_markers(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "t.py"
    path.write_text(text)
    with pytest.raises(BadSource) as caught:
        markers(path)
    assert expected in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [None, b"def f(:\n", b"\xff\xfe\0", b"x = 1\0"])
def test_unreadable_file_is_one_line(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "t.py"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BadSource) as caught:
        locate(path)
    assert str(caught.value).startswith(str(path)) and "\n" not in str(caught.value)
