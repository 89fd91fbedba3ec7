"""The page of commands says what the real parsers say, whoever builds it and where."""

import ast
import json
import os
import re
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest
from conftest import Repository

from fba_lab import __main__ as commands
from fba_lab import study, usage
from fba_lab.build import LabProblem
from fba_lab.example import ROOT

PAGE = ROOT / "docs/reference/cli.md"
NAMES = re.findall(r'^pages\.cli\("([^"]+)"\)$', PAGE.read_text(encoding="utf-8"), re.MULTILINE)
SCRIPT = """
import argparse
KINDS = ("a", "b")
def parse_arguments(argv):
    parser = argparse.ArgumentParser(prog="x.py", epilog="kinds:" + " ".join(KINDS))
    add = parser.add_argument
    add("--one", type=int, help="first")
    {line}
    return parser.parse_args(argv)
"""


def script(tmp_path: Path, line: str) -> Path:
    path = tmp_path / "snippets" / "x.py"
    path.parent.mkdir()
    path.write_text(SCRIPT.format(line=line))
    return path


def test_every_command_is_on_the_page() -> None:
    subcommands = usage.subcommands(commands.parser())
    wanted = ["study", "fba_lab", *(f"fba_lab {name}" for name in subcommands), *usage.SCRIPTS]
    assert sorted(NAMES) == sorted(wanted)
    text = PAGE.read_text(encoding="utf-8")
    for name in subcommands:
        assert re.search(rf"^### {name}$", text, re.MULTILINE), name


@pytest.mark.parametrize("name", NAMES)
def test_every_option_has_a_help_and_is_shown(name: str) -> None:
    parser = usage.parser(name, ROOT)
    shown = usage.text(parser)
    actions = [one for one in parser._actions if one.help != "==SUPPRESS=="]
    for action in actions:
        assert action.help or action.choices, action
        for option in action.option_strings or [action.metavar or action.dest]:
            assert re.search(rf"^  .*{re.escape(str(option))}\b", shown, re.MULTILINE), option
    assert max(map(len, shown.splitlines())) <= usage.WIDTH


@pytest.mark.parametrize("name", usage.SCRIPTS)
def test_scripts_say_the_same_when_they_are_run(name: str) -> None:
    pytest.importorskip("torch" if name == "train_gpt.py" else "numpy")
    env = os.environ | {"COLUMNS": str(usage.WIDTH + 2)}  # argparse leaves two columns free
    command = [sys.executable, ROOT / "snippets" / name, "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    assert usage.text(usage.parser(name, ROOT)) == done.stdout


def test_scripts_are_not_imported() -> None:
    code = "import sys\nfrom pathlib import Path\nfrom fba_lab import usage\n"
    code += f"for name in usage.SCRIPTS: usage.parser(name, Path({str(ROOT)!r}))\n"
    code += "print([name for name in ('torch', 'numpy', 'snippets') if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout == "[]\n"


def test_the_terminal_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = set()
    for columns in ("30", "300"):
        monkeypatch.setenv("COLUMNS", columns)
        seen.add("".join(usage.text(usage.parser(name, ROOT)) for name in NAMES))
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("add('--two', help='x' if argv else 'y')", "'x' if argv else 'y'"),
        ("add('--two', help=f'{argv}')", "f'{argv}'"),
        ("if argv: add('--two', help='second')", "add('--two', help='second')"),
        ("parser.add_argument_group('g').add_argument('--two')", "add_argument"),
        ("add('--two', choices=GONE)", "GONE"),
    ],
)
def test_what_cannot_be_read_is_a_problem(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(LabProblem, match=re.escape(said)):
        usage.read(script(tmp_path, line))


def test_reads_what_is_written(tmp_path: Path) -> None:
    line = "two = ('a', 'b'); add('two', nargs='*', choices=two, help='rest')"
    shown = usage.text(usage.read(script(tmp_path, line)))
    assert "--one ONE   first" in shown
    assert "{a,b}       rest" in shown
    assert shown.endswith("kinds:a b\n")


def test_a_file_without_a_parser_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "snippets" / "x.py"
    path.parent.mkdir()
    path.write_text("def main(): pass\n")
    with pytest.raises(LabProblem, match="no parse_arguments"):
        usage.read(path)


def test_an_unknown_command_names_the_nearest() -> None:
    with pytest.raises(LabProblem, match=r"did you mean.*fba_lab check"):
        usage.parser("fba_lab chek", ROOT)


# --- The JSON forms -------------------------------------------------------------------------------


def forms() -> list[dict]:
    """Return the JSON that the page shows, in its order."""
    fences = re.findall(r"^```json\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    return [json.loads(text) for text in fences]


def shape(value: object) -> object:
    """Return the keys of JSON, of lists those of the first entry."""
    if isinstance(value, dict):
        return {key: shape(one) for key, one in value.items()}
    return [shape(value[0])] if isinstance(value, list) and value else None


def output(capsys: pytest.CaptureFixture[str]) -> dict:
    return json.loads(capsys.readouterr().out)


def test_forms_are_those_that_are_printed(
    capsys: pytest.CaptureFixture[str], repo: Repository
) -> None:
    repo.example("one", "measure.metric('a_ms', [1.0, 2.0], 'ms')", main=True)
    commands.main(["record", "--root", str(repo.root), "--device", "cpu"])
    capsys.readouterr()
    listed, checked, reported = map(shape, forms())
    study.main([str(ROOT / "snippets/train_gpt.py"), "--list", "--json"])
    assert shape(output(capsys)) == listed
    commands.main(["check", "--json", "--root", str(repo.root)])
    assert shape(output(capsys)) | {"strays": None} == checked
    commands.main(["report", "--json", "--root", str(repo.root)])
    assert shape(output(capsys)) == reported


def test_fields_of_a_block_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    file = str(ROOT / "snippets/train_gpt.py")
    study.main([file, "--block", "model-compile", "--no-run", "--json"])
    printed = set(output(capsys))
    text = PAGE.read_text(encoding="utf-8")
    named = set(re.findall(r"`(\w+)`", text)) | set(forms()[0])
    named |= set(forms()[0]["blocks"][0])
    assert printed <= named


def test_the_page_is_plain(tmp_path: Path) -> None:
    # A help text is set as text: what it says in angle brackets or backticks stays as it is.
    from fba_lab import render

    shown = usage.text(usage.read(script(tmp_path, "add('--two', help='<b>`x`</b>')")))
    html = render.output(shown, "label")
    assert "<b>" not in html
    assert "<b>`x`</b>" in unescape(html)


def test_readers_of_the_script_stay_in_step() -> None:
    for name in usage.SCRIPTS:  # one function makes the parser, under the name that is looked for
        tree = ast.parse((ROOT / "snippets" / name).read_text(encoding="utf-8"))
        names = [one.name for one in tree.body if isinstance(one, ast.FunctionDef)]
        assert names.count(usage.FUNCTION) == 1


@pytest.mark.parametrize(
    "line",
    [
        'add("--two", typ=int)',
        'add("--one")',
        'add("--two", type=argparse.Nope)',
        'add("--two", help=1 + "a")',
        "again = again; add(again)",
        'add("--two", nargs=2, metavar=("x",))',
        'add("--two", default={[]: 1})',
        'add("--two", **{})',
    ],
)
def test_what_argparse_refuses_is_named_with_its_line(repo: Repository, line: str) -> None:
    repo.write("train_gpt.py", SCRIPT.format(line=line.replace("; ", "\n    ")))
    with pytest.raises(
        LabProblem, match=r"snippets/train_gpt.py:\d+: the help cannot be read from"
    ):
        usage.parser("train_gpt.py", repo.root)
