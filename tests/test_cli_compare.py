"""`gdnbench compare`: its exit codes, its streams, and what stands around its tables."""

import pytest
from committed import RESULTS
from compare_data import B1, MAIN, compared, figure, plant, run_of, source
from faults import answer
from processes import flat

from gdnbench.errors import ExitCode
from gdnbench.verbs.compare_tables import print_comparison


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


KERNELS = {f"decode-v{index}": 4.0 + 0.3 * index for index in range(1, 6)}


@pytest.fixture
def shown(capsys, monkeypatch):
    def show(side, columns="80"):
        monkeypatch.setenv("COLUMNS", columns)
        print_comparison(side, None, ["one", "other run"])
        return capsys.readouterr().out

    return show


@pytest.mark.parametrize(("cards", "told"), [(("1", "1"), "on one card: ±0.2 µs"), (("1", "2"), "hosts: ±2.8 µs")])
def test_a_launch_that_no_unchanged_case_tells_is_said_to_be_unknown(shown, cards, told):
    side = compared(
        *(source(figure(), name=name, conditions={"GPU": card}) for name, card in zip("ab", cards, strict=True))
    )
    text = flat(shown(side, columns="200"))
    assert "no unchanged case tells the launch" in text
    assert told in text


def test_what_is_unclear_between_runs_comes_with_advice(shown):
    noisy = {B1: 0.02}
    text = flat(shown(compared(run_of(KERNELS, noise=noisy), run_of(KERNELS, "other"), filtered="B=1")))
    assert "B: 6 cases UNCLEAR: measure both kernels in one run to tell less, or give a larger --margin" in text
