"""Macros in prose: numbers looked up where they were measured or set, and claims about them.

`{{ metric(...) }}`, `{{ code(...) }}`, `{{ provenance(...) }}` and `{{ claim(...) }}` are calls
with literal arguments, read as such and never run as code. What they return is only ever text.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable
from functools import partial
from html import unescape
from typing import Any

from fba_lab import build, constant, fences, record, render, results, terminal
from fba_lab import claim as claims
from fba_lab.build import LabProblem
from fba_lab.catalogue import nearest

TAG = re.compile(r"<[^>]*>")
MACRO = re.compile(r"\{\{((?:(?!\{\{).)*?)\}\}", re.DOTALL)  # one left open ends at no other's end
BRACES = re.compile(
    r"\{[ \t]*\{|\}[ \t]*\}|\{%|%\}|(?<![\w.])(?:metric|code|claim|provenance)\([ \t]*[\"']"
)
"""Outside of code: what only a macro, or a piece of a broken one, has."""
BRACED = re.compile(r"\{[%\s{]*(?:metric|code|claim|provenance)[ \t]*\(")
"""Even in code, where braces alone may be anything."""
FIELDS = ("value", "low", "high", "n", "spread", "unit", "bare")
UNKNOWN = "…"
NOTHING = "\x00"
"""Stands for a macro that prints nothing, until its place is taken out."""
SILENT = re.compile(rf"^[ \t]*{NOTHING}[ \t]*\n|{NOTHING}", re.MULTILINE)


def expand(text: str, first_line: int, site: build.Build) -> str:
    """Return prose with its macros replaced; it starts at this line of the page.

    A line that held nothing but claims goes as a whole: left empty, it would end its paragraph.
    """
    for line in sorted(_broken(text)):
        what = "this looks like a macro, but is none and would be printed as it stands"
        site.report(what, "a macro reads {{ name(...) }}", line=first_line + line)
    return SILENT.sub("", MACRO.sub(partial(_expand, first_line, site), text))


def _broken(text: str) -> set[int]:
    """Return the lines, from 0, with pieces of macros that are not whole ones."""
    # Blanked out rather than taken out, so that everything else keeps its place.
    rest = MACRO.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    found = [one for one in BRACES.finditer(rest) if not _in_code(one)]
    found += BRACED.finditer(rest)
    return {text.count("\n", 0, one.start()) for one in found}


def _expand(first_line: int, site: build.Build, found: re.Match[str]) -> str:
    site.line = first_line + found.string.count("\n", 0, found.start())
    try:
        html = _evaluate(found[1].strip(), site) or NOTHING
        return unescape(TAG.sub("", html)) if _in_code(found) else html
    except LabProblem as problem:
        what, todo = problem.what, problem.todo
    except (ValueError, OSError) as error:
        what, todo = str(error).replace("\n", " "), ""
    except Exception as error:  # a mistake of ours; the page must not end here
        what, todo = f"{{{{ {found[1].strip()} }}}}: {type(error).__name__}: {error}", ""
    site.report(what, todo)
    if _in_code(found):
        return found[0]
    return f'<mark class="lab-bad" title="{inert(what)}">{inert(found[1].strip())}</mark>'


def _in_code(found: re.Match[str]) -> bool:
    """Whether a macro stands between backticks, where Markdown would show an element as text."""
    start = found.string.rfind("\n", 0, found.start()) + 1
    return found.string.count("`", start, found.start()) % 2 == 1


def _evaluate(expression: str, site: build.Build) -> str:
    name = re.match(r"\w+", expression)
    if name is None or name[0] not in MACROS:
        called = name[0] if name else expression
        raise LabProblem(f"unknown macro '{called}'" + nearest(called, list(MACROS)))
    try:
        node = ast.parse(expression, mode="eval").body
    except SyntaxError as error:
        raise LabProblem(f"{{{{ {expression} }}}} does not parse: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise LabProblem(f"{name[0]}() does not parse: {error}") from None
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        raise LabProblem(f"a macro is one call and nothing else, not {{{{ {expression} }}}}")
    args, options = fences.literals(node)
    return _call(name[0], site, args, options)


def _call(name: str, site: build.Build, args: list[Any], options: dict[str, Any]) -> str:
    """Call a macro, its arguments checked; names the nearest option when one is mistyped."""
    signature = inspect.signature(MACROS[name])
    known = list(signature.parameters)[1:]
    for option in options:
        if option not in known:
            raise LabProblem(f"{name}() has no option '{option}'" + nearest(option, known))
    try:
        given = signature.bind(site, *args, **options)
    except TypeError as error:
        raise LabProblem(f"{name}(): {error}") from None
    for key in known:
        wanted = TYPES[str(signature.parameters[key].annotation)]
        if key in given.arguments and type(given.arguments[key]) not in wanted:
            raise LabProblem(f"{name}(): {key} is {given.arguments[key]!r:.40}, of a wrong type")
    return MACROS[name](*given.args, **given.kwargs)


def inert(text: str) -> str:
    """Return text that neither HTML nor Markdown reads anything into."""
    return re.sub(r"[^\w .,:;/+%()\u0080-\uffff-]|_", lambda found: f"&#{ord(found[0])};", text)


def _results(site: build.Build, example_id: str, device: str | None) -> list[results.Shown]:
    """Return the results that a macro speaks of and that are there."""
    found = results.chosen(results.example(example_id, site), device, site)
    return [one for one in found if one.result is not None]


def _only(site: build.Build, example_id: str, device: str | None) -> results.Shown | None:
    """Return the one result that a number is taken from; None where it isn't recorded yet."""
    if device is None:
        devices = record.required(results.example(example_id, site))
        if len(devices) > 1:
            raise LabProblem(f"{example_id} has several devices", f'say device="{devices[0]}"')
    found = _results(site, example_id, device)
    return found[0] if found else None


def metric(
    site: build.Build,
    example: str,
    name: str,
    device: str | None = None,
    field: str = "value",
    digits: int = 3,
) -> str:
    """Return a recorded number with its unit, its quartiles, or its count.

    `field` is "value" (the median with its unit), "bare" (without), "unit", "low", "high"
    (quartiles), "spread" (both) or "n".
    """
    if field not in FIELDS:
        raise LabProblem(f"metric() has no field '{field}'" + nearest(field, FIELDS))
    shown = _only(site, example, device) if site.mode != "off" else None
    if shown is None:
        return UNKNOWN
    entry = results.named(shown, "metrics", name)
    text = _field(entry, field, digits)
    why = f"{name}, median of {entry['n']}, {terminal.provenance(shown.result or {})}"
    return f'<span class="lab-number" title="{inert(why)}">{inert(text)}</span>'


def _field(entry: Any, field: str, digits: int) -> str:
    number = partial(render.number, digits=digits)
    unit = str(entry["unit"])
    unit = unit if unit in ("", "x", "%") else f"\u00a0{unit}"
    match field:
        case "value":
            return number(entry["value"]) + unit
        case "spread":
            return f"{number(entry['low'])} to {number(entry['high'])}{unit}"
        case "unit":
            return str(entry["unit"])
        case "bare":
            return number(entry["value"])
    return number(entry[field])


def code(site: build.Build, expression: str, file: str = "snippets/train_gpt.py") -> str:
    """Return a constant of a source file, such as `Config.micro_tokens`."""
    value = constant.look_up(site.root / file, expression)
    return f'<span title="{inert(expression)}">{inert(_constant(value))}</span>'


def _constant(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}" if abs(value) >= 10_000 else str(value)
    return ", ".join(map(_constant, value)) if isinstance(value, tuple) else str(value)


def claim(site: build.Build, example: str, text: str, device: str | None = None) -> str:
    """Check a comparison of recorded metrics; prints nothing, and is a problem when it is false."""
    if site.mode == "off":
        return ""
    for one in _results(site, example, device):
        metrics = {
            entry["name"]: claims.Interval(entry["low"], entry["high"])
            for entry in (one.result or {})["metrics"]
        }
        for failed in claims.failures(text, metrics):
            site.report(
                f"claim does not hold for {example} on {one.device}: {failed}",
                "change the sentence beside it, or the code",
            )
    return ""


def provenance(site: build.Build, example: str, device: str | None = None) -> str:
    """Return what a result was made with: device, torch, CUDA, date, commit."""
    shown = _only(site, example, device) if site.mode != "off" else None
    return inert(terminal.provenance(shown.result)) if shown and shown.result else UNKNOWN


MACROS: dict[str, Callable[..., str]] = {
    "metric": metric,
    "code": code,
    "claim": claim,
    "provenance": provenance,
}
TYPES: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "str | None": (str, type(None)),
    "int": (int,),
}
"""Types that an argument may have, by its annotation."""
