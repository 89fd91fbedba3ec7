"""Constants of a source file, read from its syntax tree: the file is never imported."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fba_lab.build import LabProblem
from fba_lab.catalogue import nearest
from fba_lab.syntax import parse

ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
}

LIMIT = 2**64
"""The largest number that arithmetic may give: a power of a power would take a machine down."""


def _module(path: Path) -> dict[str, ast.AST]:
    """Return what each name of a module's top level was last bound to."""
    names: dict[str, ast.AST] = {}
    for node in parse(path, path.parent.parent).body:
        match node:
            case ast.Assign([ast.Name(name)], value) | ast.AnnAssign(ast.Name(name), _, value):
                if value is not None:
                    names[name] = value
            case ast.Assign([ast.Tuple(targets)], ast.Tuple(values)):
                for target, value in zip(targets, values, strict=False):
                    if isinstance(target, ast.Name):
                        names[target.id] = value
            case ast.ClassDef(name):
                names[name] = node
    return names


def look_up(path: Path, text: str) -> Any:
    """Return the value of an expression such as `Config.width` or `PRESETS["tiny"].steps`.

    Raises:
        LabProblem: when it is not a constant of the file.
        BadSource: when the file cannot be read or is not valid Python.
    """
    names = _module(path)
    try:
        tree = ast.parse(text, mode="eval").body
        return _value(_reduce(tree, names, text), names, text)
    except SyntaxError as error:
        raise LabProblem(f"`{text}` does not parse: {error.msg}") from None
    except ArithmeticError as error:
        raise LabProblem(f"`{text}` has no value: {error}") from None
    except (KeyError, IndexError, TypeError, ValueError, RecursionError, MemoryError):
        raise LabProblem(f"{path.name} holds no constant `{text}`") from None


def _reduce(node: ast.AST, names: dict[str, ast.AST], text: str) -> ast.AST:
    """Follow names, attributes and subscripts to the node that holds the value."""
    match node:
        case ast.Name(name):
            if name not in names:
                raise LabProblem(f"no constant '{name}' for `{text}`" + nearest(name, list(names)))
            return _reduce(names[name], names, text)
        case ast.Attribute(value, name):
            return _reduce(_attribute(_reduce(value, names, text), name, names, text), names, text)
        case ast.Subscript(value, index):
            key = _value(index, names, text)
            return _reduce(_item(_reduce(value, names, text), key), names, text)
    return node


def _item(node: ast.AST, key: Any) -> ast.AST:
    match node:
        case ast.Dict(keys, values):
            pairs = zip(keys, values, strict=True)
            return {k.value: v for k, v in pairs if isinstance(k, ast.Constant)}[key]
        case ast.Tuple(items) | ast.List(items):
            return items[key]
    raise TypeError


def _fields(cls: ast.ClassDef) -> dict[str, ast.expr | None]:
    return {
        node.target.id: node.value
        for node in cls.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }


def _attribute(node: ast.AST, name: str, names: dict[str, ast.AST], text: str) -> ast.AST:
    """Return a field: of a class its default, of a call of a class what was passed for it."""
    match node:
        case ast.ClassDef():
            fields = _fields(node)
            if fields.get(name) is None:
                raise LabProblem(f"no field '{name}' for `{text}`" + nearest(name, list(fields)))
            return fields[name]
        case ast.Dict():
            return _item(node, name)
        case ast.Call(ast.Name(cls), args, keywords) if isinstance(names.get(cls), ast.ClassDef):
            by_place = dict(zip(_fields(names[cls]), args, strict=False))
            passed = by_place | {keyword.arg: keyword.value for keyword in keywords}
            return passed.get(name) or _attribute(names[cls], name, names, text)
    raise TypeError


def _value(node: ast.AST, names: dict[str, ast.AST], text: str) -> Any:
    """Evaluate literals and arithmetic on them."""
    match node:
        case ast.Constant(value):
            return value
        case ast.UnaryOp(ast.USub(), operand):
            return -_value(operand, names, text)
        case ast.BinOp(left, op, right) if type(op) in ARITHMETIC:
            return _compute(op, _value(left, names, text), _value(right, names, text))
        case ast.Call(ast.Name("len"), [sized]):
            inner = _reduce(sized, names, text)
            return len(getattr(inner, "elts", None) or getattr(inner, "keys", None) or ())
        case ast.Tuple(items) | ast.List(items):
            return tuple(_value(item, names, text) for item in items)
        case ast.Name() | ast.Attribute() | ast.Subscript():
            return _value(_reduce(node, names, text), names, text)
    raise TypeError


def _compute(op: ast.operator, left: Any, right: Any) -> float:
    """Do arithmetic on two numbers of bounded size; on text or tuples it could fill the memory."""
    if not all(isinstance(side, int | float) for side in (left, right)):
        raise TypeError
    if isinstance(op, ast.Pow) and isinstance(right, int) and right > 64 and abs(left) > 1:
        raise OverflowError("an exponent is over 64")
    result = ARITHMETIC[type(op)](left, right)
    if not isinstance(result, int | float):  # a root of a negative number
        raise TypeError
    if abs(result) > LIMIT:
        raise OverflowError("a number is over 2**64")
    return result
