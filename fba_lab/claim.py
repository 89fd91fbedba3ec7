"""Claims: comparisons that must hold between the quartiles of recorded metrics.

A name stands for the interval between its lower and upper quartile, and arithmetic is done on
intervals. `a < b` holds when the whole of `a` lies under the whole of `b`: two medians that differ
while their runs overlap support no sentence.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import NamedTuple

from fba_lab.build import LabProblem
from fba_lab.catalogue import nearest


class Interval(NamedTuple):
    """A range of values, ends included."""

    low: float
    high: float

    def __str__(self) -> str:
        """Give the range as text."""
        return f"{self.low:.4g}" if self.low == self.high else f"{self.low:.4g}..{self.high:.4g}"


Combine = Callable[[float, float], float]
ARITHMETIC: dict[type[ast.operator], Combine] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
}
HOLDS: dict[type[ast.cmpop], Callable[[Interval, Interval], bool]] = {
    ast.Lt: lambda a, b: a.high < b.low,
    ast.LtE: lambda a, b: a.high <= b.low,
    ast.Gt: lambda a, b: a.low > b.high,
    ast.GtE: lambda a, b: a.low >= b.high,
    ast.Eq: lambda a, b: a.low == a.high == b.low == b.high,
    ast.NotEq: lambda a, b: a.high < b.low or a.low > b.high,
}


def value(node: ast.expr, metrics: Mapping[str, Interval]) -> Interval:
    """Evaluate arithmetic over metrics; raises LabProblem for anything else."""
    match node:
        case ast.Constant(int() | float() as number):
            return _constant(number)
        case ast.Name(name) if name in metrics:
            return metrics[name]
        case ast.Name(name):
            raise LabProblem(f"no metric '{name}'" + nearest(name, list(metrics)))
        case ast.UnaryOp(ast.USub(), operand):
            low, high = value(operand, metrics)
            return Interval(-high, -low)
        case ast.BinOp(left, op, right) if type(op) in ARITHMETIC:
            return _combine(ARITHMETIC[type(op)], value(left, metrics), value(right, metrics))
    raise LabProblem(f"a claim compares metrics and numbers, not `{ast.unparse(node)}`")


def _constant(number: float) -> Interval:
    try:
        return Interval(float(number), float(number))
    except OverflowError:
        raise LabProblem("a claim holds a number that is too large") from None


def _combine(combine: Combine, a: Interval, b: Interval) -> Interval:
    try:
        ends = [combine(x, y) for x in a for y in b]
    except ZeroDivisionError:
        raise LabProblem("a claim divides by an interval that ends at 0") from None
    except ArithmeticError as error:
        raise LabProblem(f"a claim computes too large a number: {error}") from None
    if combine is ARITHMETIC[ast.Div] and b.low < 0 < b.high:
        raise LabProblem("a claim divides by an interval that contains 0")
    return Interval(min(ends), max(ends))


def failures(text: str, metrics: Mapping[str, Interval]) -> list[str]:
    """Return the parts of a claim that do not hold, each with its ranges; empty when all hold.

    Args:
        text: comparisons over names of metrics and numbers, joined by `and` or `or`.
        metrics: the interval behind each name.
    """
    try:
        return _failures(ast.parse(text.strip(), mode="eval").body, metrics)
    except SyntaxError as error:
        raise LabProblem(f"the claim `{text}` does not parse: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise LabProblem(f"a claim cannot be read: {error}") from None


def _failures(node: ast.expr, metrics: Mapping[str, Interval]) -> list[str]:
    match node:
        case ast.BoolOp(ast.And(), values):
            return [text for part in values for text in _failures(part, metrics)]
        case ast.BoolOp(ast.Or(), values):
            parts = [_failures(part, metrics) for part in values]
            return [] if not all(parts) else [text for part in parts for text in part]
        case ast.Compare():
            return _compare(node, metrics)
    raise LabProblem(f"a claim is a comparison, not `{ast.unparse(node)}`")


def _compare(node: ast.Compare, metrics: Mapping[str, Interval]) -> list[str]:
    sides = [node.left, *node.comparators]
    failed = []
    for left, op, right in zip(sides, node.ops, sides[1:], strict=False):
        if type(op) not in HOLDS:
            raise LabProblem(f"a claim compares by <, <=, >, >=, == or !=: `{ast.unparse(node)}`")
        a, b = value(left, metrics), value(right, metrics)
        if not HOLDS[type(op)](a, b):
            text = ast.unparse(ast.Compare(left, [op], [right]))
            failed.append(f"{text} (here {a} against {b})")
    return failed
