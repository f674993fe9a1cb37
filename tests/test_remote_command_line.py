"""Which words of a command line travel."""

import pytest

from gdnbench.remote.job import forwarded_args, read_options

SPELLINGS = {
    "--kernel": ("kernel", True),
    "-k": ("kernel", True),
    "--out": ("results", True),
    "--on": ("on", True),
    "--label": ("label", True),
    "--quiet": ("quiet", False),
    "-q": ("quiet", False),
    "-y": ("yes", False),
}


@pytest.mark.parametrize(
    ("typed", "travels"),
    [
        ("a --on lab b", "a b"),
        ("--on=lab --out=x a", "a"),
        ("--label --on --on lab", "--label --on"),  # the label is `--on`
        ("-k --out -q --out x", "-k --out -q"),
        ("-k--out -qy --on lab", "-k--out -qy"),
        ("a -- --on lab", "a -- --on lab"),
        ("--on lab -- --out", "-- --out"),
        ("--label=--out=x", "--label=--out=x"),
        ("a --out", "a"),
        ("--unknown --on x", "--unknown"),
        ("- --on lab", "-"),
        ("", ""),
    ],
)
def test_options_of_this_machine_stay_and_values_that_look_like_them_travel(typed, travels):
    options = list(read_options(typed.split(), SPELLINGS))
    assert forwarded_args(options, {"on", "results"}) == travels.split()
    assert forwarded_args(options, set()) == typed.split()
