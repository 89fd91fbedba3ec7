"""Fences are found, refused with a reason, and rewritten without losing a line of the page."""

import pytest

from fba_lab import fences

PAGE = """# Title

```python exec="true"
from fba_lab import pages
pages.show("a")
```

!!! note
    ```py exec="on" html="1"
    pages.show("b")
    ```

````markdown
```python exec="true"
pages.show("shown, not evaluated")
```
````

~~~sh
echo
~~~

``` {.python exec="1"}
pages.show("c")
```
```python exec="true"
never closed
"""


def fence(body: str, info: str = 'python exec="true"') -> fences.Piece:
    return next(fences.split(f"```{info}\n{body}\n```"))


def test_pieces_give_back_the_page() -> None:
    assert "\n".join("\n".join(piece.lines) for piece in fences.split(PAGE)) == PAGE


def test_evaluated_fences_and_their_lines() -> None:
    found = [(p.line, p.language, p.body) for p in fences.split(PAGE, 10) if p.evaluated]
    assert [(line, language) for line, language, _ in found] == [
        (12, "python"),
        (18, "py"),
        (32, "python"),
    ]
    assert found[1][2] == 'pages.show("b")'


@pytest.mark.parametrize(
    ("body", "info", "said"),
    [
        ("pages.shwo('a')", 'python exec="true"', "did you mean show"),
        ("pages.show('a')", 'python exec="true" soruce="above"', "unknown fence option 'soruce'"),
        ("pages.show('a')", 'python exec="true" source="abovee"', "unknown fence option 'source'"),
        ("echo", 'bash exec="true"', "a bash fence is not evaluated"),
        ("pages.show('a'", 'python exec="true"', "does not parse"),
        ("import sys\nsys.exit(0)", 'python exec="true"', "one call"),
        ("pages.show('a')\npages.show('b')", 'python exec="true"', "one call"),
    ],
)
def test_refused(body: str, info: str, said: str) -> None:
    assert said in str(fences.refuse(fence(body, info), ["show", "block"]))


def test_accepted() -> None:
    body = "from fba_lab import pages\npages.show(\n    'a',\n)"
    assert fences.refuse(fence(body), ["show"]) is None


def test_instrumented() -> None:
    piece = next(p for p in fences.split(PAGE) if p.evaluated)
    text = fences.instrument(piece)
    assert text.startswith('```python html="1" exec="true"\n')
    assert "pages.enter(3, print)" in text
    assert text.endswith("pages.leave(3)\n```")
