"""`gdnbench compare` as a process: its exit codes, its streams, and no torch."""

import subprocess
import sys

import pytest
from committed import RESULTS
from compare_data import DEFAULT, MAIN, plant
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


def test_the_other_way_round_it_is_an_improvement(slower):
    assert compare(slower, MAIN, "--fail-on", "slower:1%").code == ExitCode.OK


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


def test_a_run_too_noisy_to_tell_fails_only_where_it_must_not():
    assert compare(*DEFAULT, "--fail-on", "slower:0.5%").code == ExitCode.OK
    strict = compare(*DEFAULT, "--fail-on", "slower:0.5%", "--strict")
    assert strict.code == ExitCode.NOISY
    assert "cannot be told from 0.50% slower: decode-fla at B=1 qk4_v8" in strict.err


def test_without_a_gate_a_difference_is_no_failure(slower):
    done = compare(MAIN, slower)
    assert done.code == 0
    assert done.err == ""


@pytest.mark.parametrize(
    "words",
    [
        (MAIN,),
        (MAIN, "nothing"),
        (MAIN, DEFAULT[0], "--rows", "colour"),
        (MAIN, DEFAULT[0], "--fail-on", "wrong"),
        (MAIN, DEFAULT[0], "--strict"),
        (MAIN, DEFAULT[0], "--margin", "2"),
        (MAIN, "20261121-180525", "--filter", "label=decode-v4,decode-triton:*"),
        (),
    ],
)
def test_what_cannot_be_compared_is_a_usage_error(words):
    done = compare(*words)
    assert done.code == ExitCode.USAGE, done.out
    assert done.out == ""
    assert "Traceback" not in done.err


def test_it_imports_no_torch():
    code = (
        "import sys; from gdnbench.verbs.app import app; "
        f"app(['compare', '{DEFAULT[0]}', '{DEFAULT[1]}'], standalone_mode=False); "
        "assert not {'torch', 'triton', 'matplotlib'} & set(sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=RESULTS.parent, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
