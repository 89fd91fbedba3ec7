"""Constants come from the syntax tree; the file is never run."""

from pathlib import Path

import pytest

from fba_lab.build import LabProblem
from fba_lab.constant import look_up
from fba_lab.syntax import BadSource

SOURCE = """
raise SystemExit("imported")
STEPS = 4 * 1000
VERSIONS = ("2.11", "2.13")
LOOP = LOOP
WARM, TURNS = 3, 2 * 6

class Config:
    width: int = 8 * 96
    rate: float = -0.5
    name: str

PRESETS = {"tiny": Config(width=64), "wide": Config(1024)}
STAGES = [Config(1), Config(2)]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "trainer.py"
    path.write_text(SOURCE)
    return path


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("STEPS", 4000),
        ("STEPS // 3", 1333),
        ("TURNS", 12),
        ("VERSIONS", ("2.11", "2.13")),
        ("VERSIONS[1]", "2.13"),
        ("Config.width", 768),
        ("Config.rate", -0.5),
        ('PRESETS["tiny"].width', 64),
        ("PRESETS.tiny.rate", -0.5),
        ("PRESETS.wide.width", 1024),
        ("STAGES[1].width", 2),
        ("len(STAGES)", 2),
        ("Config.width * 2", 1536),
    ],
)
def test_value(file: Path, text: str, value: object) -> None:
    assert look_up(file, text) == value


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("STEP", "did you mean STEPS"),
        ("Config.widht", "did you mean width"),
        ("Config.name", "no field"),
        ("STEPS +", "does not parse"),
        ("VERSIONS[9]", "holds no constant"),
        ("print(1)", "holds no constant"),
        ("LOOP", "holds no constant"),
        ("1/0", "has no value"),
        ("2.0**9999", "has no value"),
        ("9**9**9", "has no value"),
        ("9**64 * 9**64", "has no value"),
        ("(-8)**0.5", "holds no constant"),
        ("'a' * 10**12", "holds no constant"),
    ],
)
def test_mistakes_are_named(file: Path, text: str, said: str) -> None:
    with pytest.raises(LabProblem) as caught:
        look_up(file, text)
    assert said in caught.value.what


def test_an_edit_is_seen(file: Path) -> None:
    assert look_up(file, "STEPS") == 4000
    file.write_text("STEPS = 5")
    assert look_up(file, "STEPS") == 5


def test_a_file_that_does_not_parse_is_named_with_its_line(file: Path) -> None:
    file.write_text("STEPS = 1\nSTEPS = (\n")
    with pytest.raises(BadSource, match=r"trainer.py:2: not valid Python"):
        look_up(file, "STEPS")
