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
        ("from os import system\npages.show('a')", 'python exec="true"', "one call"),
        ("from fba_lab import pages as p\np.show('a')", 'python exec="true"', "one call"),
        ("pages.show(exit())", 'python exec="true"', "literals, not `exit()`"),
        ("pages.show(a=__import__('os'))", 'python exec="true"', "literals, not"),
        ("pages.show(*['a'])", 'python exec="true"', "literals, not"),
        ("pages.show(**{'a': 1})", 'python exec="true"', "not unpacked"),
        ("pages.show({[]: 1})", 'python exec="true"', "literals, not"),
    ],
)
def test_refused(body: str, info: str, said: str) -> None:
    assert said in str(fences.refuse(fence(body, info), ["show", "block"]))


OURS = "from fba_lab import pages\npages.blocks()"


@pytest.mark.parametrize(
    ("page", "line", "said"),
    [
        *(
            (f"```{info}\n{OURS}\n```", 1, "shown, not evaluated")
            for info in (
                'python exce="true"',
                'python exec="ture"',
                "python exec",
                'python EXEC="true"',
                "python exec=\u201ctrue\u201d",
                "python",
            )
        ),
        (f'text\n```python exec="true"\n{OURS}\n', 2, "never closed"),
        ("~~~\nopen", 1, "never closed"),
        (f'``python exec="true"\n{OURS}\n``', 2, "outside of any fence"),
        ('```sh\necho\n``` end\n\n```python exec="true"\nx\n```', 3, "line 1 is still open"),
    ],
)
def test_what_is_silently_not_evaluated_is_named(page: str, line: int, said: str) -> None:
    found = next(filter(None, map(fences.overlooked, fences.split(page))))
    assert found[0] == line
    assert said in found[1]


@pytest.mark.parametrize(
    "page",
    [
        "```python\nfrom fba_lab import measure\n```",
        f'````markdown\n```python exec="true"\n{OURS}\n```\n````',
        "Say `pages.show()` here.",
    ],
)
def test_plain_code_stays_plain(page: str) -> None:
    assert not any(map(fences.overlooked, fences.split(page)))


def test_accepted() -> None:
    body = "from fba_lab import pages\npages.show(\n    'a',\n)"
    assert fences.refuse(fence(body), ["show"]) is None


def test_instrumented() -> None:
    piece = next(p for p in fences.split(PAGE) if p.evaluated)
    text = fences.instrument(piece)
    assert text.startswith('```python html="1" exec="true"\n')
    assert "pages.enter(3, print)" in text
    assert text.endswith("pages.leave(3)\n```")
