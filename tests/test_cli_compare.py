"""`gdnbench compare` as a process: its exit codes, its streams, and no torch."""

import pytest
from committed import RESULTS
from compare_data import MAIN, plant
from faults import answer

from gdnbench.errors import ExitCode


def compare(*words):
    return answer("compare", *words, folder=RESULTS.parent)


@pytest.fixture(scope="module")
def slower(tmp_path_factory):
    return plant(tmp_path_factory.mktemp("planted") / "slower", "decode-v4", 1.02)


def test_a_planted_regression_fails_and_is_named(slower):
    done = compare(MAIN, slower, "--fail-on", "slower:1%")
    assert done.code == ExitCode.REGRESSION, done.err
    assert "regression: decode-v4 at B=1 qk4_v8 is slower by more than 1.00%" in done.err
    assert "regression" not in done.out
    assert done.err.count("regression:") == 3


def test_less_than_the_margin_passes(tmp_path):
    little = plant(tmp_path / "little", "decode-v4", 1.002)
    assert compare(MAIN, little, "--fail-on", "slower:1%").code == ExitCode.OK
    assert compare(MAIN, little, "--fail-on", "slower:3%", "--strict").code == ExitCode.OK


def test_a_chain_of_launches_is_not_told_to_a_per_cent_by_a_process_of_each(tmp_path):
    """A process adds over half a per cent to the times of a chain, which runs of one process each cannot show."""
    little = plant(tmp_path / "little", "decode-v4", 1.002)
    done = compare(MAIN, little, "--fail-on", "slower:1%", "--strict")
    assert done.code == ExitCode.NOISY
    named = " ".join(done.err.split())
    assert "decode-reference at B=1 qk4_v8" in named
    assert "decode-v" not in named
