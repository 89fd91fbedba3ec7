"""Numbers and tables as plain text, for a reader who runs an example by itself."""

from __future__ import annotations

from collections.abc import Sequence


def number(value: int | float) -> str:
    """Return a number: a count in full, anything else to six digits."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"


def cell(value: str | int | float | None) -> str:
    """Return the text of a cell of a table; "-" for None."""
    if value is None:
        return "-"
    return str(value) if isinstance(value, str | bool) else number(value)


def table(name: str, columns: list[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a name and under it rows of aligned cells."""
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in [columns, *rows])
    return "\n".join([name, *(f"  {line}" for line in lines)])
