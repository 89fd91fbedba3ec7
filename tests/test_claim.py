"""A claim holds only when quartiles, not medians, support it."""

import pytest

from fba_lab.build import LabProblem
from fba_lab.claim import Interval, failures

METRICS = {
    "fast": Interval(9.0, 11.0),
    "slow": Interval(19.0, 23.0),
    "near": Interval(10.5, 12.0),
    "graphs": Interval(3, 3),
    "zero": Interval(-1, 1),
}


@pytest.mark.parametrize(
    "text",
    [
        "fast < slow",
        "slow > fast",
        "slow / fast > 1.5",
        "slow - fast >= 8",
        "2 * fast + 1 <= slow + 1e9",
        "graphs == 3",
        "fast != slow",
        "fast < slow and graphs > 2",
        "fast < 1 or graphs == 3",
        "1 < fast < slow",
        "-fast < 0",
    ],
)
def test_holds(text: str) -> None:
    assert failures(text, METRICS) == []


@pytest.mark.parametrize(
    "text",
    [
        "fast < near",  # the medians differ, the quartiles overlap
        "slow < fast",
        "fast == fast",
        "graphs == 2",
        "fast < slow and fast < near",
        "fast < 1 or graphs == 2",
        "1 < fast < near",
    ],
)
def test_fails_and_says_with_what(text: str) -> None:
    failed = failures(text, METRICS)
    assert failed
    assert all("against" in one for one in failed)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("fats < slow", "did you mean fast"),
        ("fast <", "does not parse"),
        ("fast", "is a comparison"),
        ("fast in slow", "compares by"),
        ("open('x') < 1", "not `open('x')`"),
        ("fast ** 2 > 1", "metrics and numbers"),
        ("fast / zero > 1", "contains 0"),
        ("not fast < slow", "is a comparison"),
        ("fast < 1" + "0" * 400, "too large"),
        ("fast < 1" + " + 1" * 3000, "cannot be read"),
    ],
)
def test_mistakes_are_named(text: str, said: str) -> None:
    with pytest.raises(LabProblem, match=r".") as caught:
        failures(text, METRICS)
    assert said in caught.value.what
