"""The table of what `make test` leaves out names tests that are there, and leaves a case of most."""

import ast
from pathlib import Path

from deep import KEPT, KEPT_BY_REASON, deep_places

TESTS = Path(__file__).parent


def test_every_test_that_it_names_is_there():
    for file in {name.partition("::")[0] for name in KEPT}:
        found = {node.name for node in ast.parse((TESTS / file).read_text()).body if isinstance(node, ast.FunctionDef)}
        assert {test for each, _, test in (name.partition("::") for name in KEPT) if each == file} <= found, file


def test_no_test_is_named_twice():
    assert len(KEPT) == sum(map(len, KEPT_BY_REASON.values()))


def test_the_cases_that_stay_are_as_many_as_it_says_and_spread_evenly():
    assert deep_places("abcdef", 2) == {1, 2, 4, 5}
    assert deep_places("abc", 0) == {0, 1, 2}
    assert deep_places("a", 1) == set()
    assert deep_places("abcd", (0, 3)) == {1, 2}
    assert deep_places(("ab", "c", "d"), ("d", "ab")) == {1}
