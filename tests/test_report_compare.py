"""A comparison on stdout: what stands around its tables."""

import pytest
from compare_data import B1, compared, figure, run_of, source

from gdnbench.verbs.compare_tables import print_comparison

KERNELS = {f"decode-v{index}": 4.0 + 0.3 * index for index in range(1, 6)}


@pytest.fixture
def shown(capsys, monkeypatch):
    def show(side, columns="80"):
        monkeypatch.setenv("COLUMNS", columns)
        print_comparison(side, None, ["one", "other run"])
        return capsys.readouterr().out

    return show


def flat(text):
    return " ".join(text.split())


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
