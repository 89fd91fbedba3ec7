"""The help of the commands, as their parsers print it, at one width everywhere.

The two scripts import torch or numpy, so they are not imported here: their parsers are built again
from the literal arguments in the file. What cannot be read so is a problem of the page.
"""

from __future__ import annotations

import argparse
import ast
import functools
from pathlib import Path
from typing import Any

from fba_lab import __main__ as commands
from fba_lab import constant, study
from fba_lab.build import LabProblem
from fba_lab.catalogue import nearest
from fba_lab.syntax import parse

WIDTH = 80
SCRIPTS = ("train_gpt.py", "prepare_data.py")
FUNCTION = "parse_arguments"
"""The function of a script that makes its parser."""
READ = ("argparse.ArgumentParser", "parser.add_argument", "add")
"""Calls of that function that are read; `add` stands for the one before."""
CONVERTERS = {"int": int, "float": float, "str": str, "Path": Path}


def parser(command: str, root: Path) -> argparse.ArgumentParser:
    """Return the parser of "study", "fba_lab", "fba_lab check" and its like, or of a script.

    Raises:
        LabProblem: when there is no such command, or a script builds its parser otherwise.
    """
    known = {"study": study.parser(), "fba_lab": commands.parser()}
    known |= {f"fba_lab {name}": one for name, one in subcommands(known["fba_lab"]).items()}
    if command in SCRIPTS:
        return read(root / "snippets" / command)
    if command not in known:
        what = f"there is no command '{command}'"
        raise LabProblem(what + nearest(command, [*known, *SCRIPTS]))
    return known[command]


def subcommands(top: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the parsers of subcommands by name."""
    for action in top._actions:  # argparse has no public way to ask a parser what it takes
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def text(one: argparse.ArgumentParser) -> str:
    """Return the help of a parser, which depends on no terminal."""
    one.formatter_class = functools.partial(one.formatter_class, width=WIDTH)  # type: ignore[assignment]
    return one.format_help()


def read(path: Path) -> argparse.ArgumentParser:
    """Return a parser like the one that a script's `parse_arguments` makes, without running it.

    Raises:
        LabProblem: when an argument is neither a literal nor made of constants of the file.
        BadSource: when the file cannot be read or is not valid Python.
    """
    body = parse(path, path.parent.parent).body
    function = next(
        (one for one in body if isinstance(one, ast.FunctionDef) and one.name == FUNCTION), None
    )
    made = None
    for call in _calls(function, path) if function else ():
        try:
            args = [_value(one, path, function) for one in call.args]
            options = {str(one.arg): _value(one.value, path, function) for one in call.keywords}
            if _name(call) == "argparse.ArgumentParser":
                made = argparse.ArgumentParser(*args, **options)
            elif made:
                made.add_argument(*args, **options)
        except (TypeError, ValueError, AttributeError, RecursionError, argparse.ArgumentError):
            raise _unreadable(call, path) from None
    if made is None:
        raise LabProblem(f"{path.name} has no {FUNCTION}() that makes an argparse.ArgumentParser")
    return made


def _calls(function: ast.FunctionDef, path: Path) -> list[ast.Call]:
    """Return the calls that make a script's parser, which must stand in a row, in no branch."""
    statements = [one.value for one in function.body if isinstance(one, ast.Expr | ast.Assign)]
    calls = [one for one in statements if isinstance(one, ast.Call) and _name(one) in READ]
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and _adds(node) and node not in calls:
            raise _unreadable(node, path)
    return calls


def _name(call: ast.Call) -> str:
    return ast.unparse(call.func)


def _adds(call: ast.Call) -> bool:
    """Whether a call gives a parser something, also by a way that is not read here."""
    return _name(call) in READ or _name(call).rpartition(".")[2].startswith("add_")


def _unreadable(node: ast.expr, path: Path) -> LabProblem:
    where = f"snippets/{path.name}:{node.lineno}"
    return LabProblem(f"{where}: the help cannot be read from `{ast.unparse(node)}`")


def _value(node: ast.expr, path: Path, function: ast.FunctionDef) -> Any:
    """Return what an argument says: a literal, a type, a path, a name, or texts put together."""
    match node:
        case ast.Name(name) if name in CONVERTERS:
            return CONVERTERS[name]
        case ast.Name(name):
            return _named(name, path, function)
        case ast.Attribute(ast.Name("argparse"), name):
            return getattr(argparse, name)
        case ast.Call(ast.Name("Path"), [ast.Constant(str() as where)], []):
            return Path(where)
        case ast.BinOp(left, ast.Add(), right):
            return _value(left, path, function) + _value(right, path, function)
        case ast.Call(ast.Attribute(ast.Constant(str() as between), "join"), [ast.Name(name)], []):
            return between.join(_named(name, path, function))
    try:
        return ast.literal_eval(node)
    except ValueError:
        raise _unreadable(node, path) from None


def _named(name: str, path: Path, function: ast.FunctionDef) -> Any:
    """Return what a name holds: a literal that the function assigned, else one of the file."""
    for statement in function.body:
        match statement:
            case ast.Assign([ast.Name(bound)], value) if bound == name:
                return _value(value, path, function)
    return constant.look_up(path, name)
