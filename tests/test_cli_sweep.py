"""`gdnbench sweep` as a user meets it: on the CPU."""

import pytest
from faults import REPOSITORY, Gdnbench

TUNABLE = REPOSITORY / "tests" / "tunable"
# A margin so wide that a busy machine does not tell the baseline apart from itself, which is exit code 4.
SWEEP = ("sweep", "test-tunable", "--gpu", "cpu", "--baseline", "decode-reference", "--margin", "0.3", "--json", "-q")
BUDGET = ("--budget", "9s", "--samples", "10")  # 6 s of it are for the start of a worker


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """One sweep over all delays, and what it printed."""
    bench = Gdnbench(tmp_path_factory.mktemp("sweep"), (TUNABLE,), in_process=True)
    done = bench(*SWEEP, "--out", str(bench.results), *BUDGET, "-p", "DELAY", "-p", "WIDE=1")
    return bench, done


@pytest.mark.slow
def test_a_sweep_finds_the_best_point(swept):
    _, done = swept
    assert done.code == 0, done.err
    (plateau,) = done.document["sweep"]["plateaus"]
    assert plateau["kernel"] == "test-tunable"
    assert "test-tunable:DELAY=2:WIDE=1" in {*plateau["tied"], *plateau["unclear"]}
    points = {point["label"]: point for point in done.document["sweep"]["points"]}
    assert set(points) == {f"test-tunable:DELAY={delay}:WIDE=1" for delay in (2, 3, 4)}
    assert points["test-tunable:DELAY=2:WIDE=1"]["place"] != "slower"


@pytest.mark.slow
def test_show_prints_the_same_again(swept):
    bench, done = swept
    assert bench("show", "--out", str(bench.results), "--json").document == done.document
    table = bench("show", "--out", str(bench.results))
    assert table.code == 0
    assert "sweep on the CPU" in table.out
    assert "99 is more than there is" in table.out
