"""Three clocks on a real GPU: each in its place, for kernels of one launch and of many."""

import pytest
from faults import Gdnbench

from gdnbench.store.measurements import read_clocks, read_measurements

pytestmark = [pytest.mark.gpu, pytest.mark.slow]

SINGLE = ("decode-floor-empty", "decode-floor-copy", "decode-v4", "decode-triton")
OPTIONS = ("--gpu", "auto", "--baseline", "decode-reference", "--margin", "0.9", "--quick", "-q")


@pytest.fixture(scope="module", params=["default", "plain"])
def rows(request, tmp_path_factory):
    """The rows of a run by clock and label."""
    bench = Gdnbench(tmp_path_factory.mktemp("clocks"), takes_turns=True)
    plain = ("--plain",) if request.param == "plain" else ()
    done = bench.run(",".join(SINGLE), "--timer", "nvbench,cupti,graph,events", *OPTIONS, *plain)
    assert done.code == 0, f"{done.code}: {done.err}"
    folder = bench.only_run()
    own, clocks = read_measurements(folder), read_clocks(folder)
    return {clock: {row.case.label: row for row in found} for clock, found in {"nvbench": own, **clocks}.items()}


def time_us(rows, clock, label):
    return rows[clock][label].timing.time_us


def test_every_case_has_a_time_by_every_clock(rows):
    labels = {*SINGLE, "decode-reference", "decode-reference@again"}
    for clock in ("nvbench", "cupti", "graph", "events"):
        assert {label for label, row in rows[clock].items() if row.timing} == labels
        assert {row.timing.rounds for row in rows[clock].values()} == {7 if clock == "nvbench" else 4}


@pytest.mark.parametrize("label", SINGLE)
def test_the_hardwares_time_is_within_nvbenchs(rows, label):
    assert 0.2 < time_us(rows, "cupti", label) < time_us(rows, "nvbench", label)


def test_a_chain_of_launches_is_not_charged_for_the_host(rows):
    """Only for being recorded, up to 0.16 µs a kernel."""
    usual_us = time_us(rows, "nvbench", "decode-reference")
    assert time_us(rows, "cupti", "decode-reference") == pytest.approx(usual_us, rel=0.1)


@pytest.mark.parametrize("label", SINGLE)
def test_a_replayed_launch_lies_between_the_two(rows, label):
    """By the hardware's record nothing but the kernel is in the time; a graph adds a node's latency, no events."""
    slack_us = 0.3  # of a quick run's few replays
    assert time_us(rows, "cupti", label) - slack_us < time_us(rows, "graph", label)
    assert time_us(rows, "graph", label) < time_us(rows, "nvbench", label)


@pytest.mark.parametrize("clock", ["nvbench", "cupti", "graph"])
def test_every_clock_has_the_order_that_physics_asks_for(rows, clock):
    times = [time_us(rows, clock, label) for label in (*SINGLE[:3], "decode-reference")]
    assert times == sorted(times)


def test_every_clock_ran_at_a_loaded_gpus_clock(rows):
    """A GPU that has fallen asleep reads twice the time."""
    usual = rows["nvbench"]["decode-v4"].timing.sm_mhz
    for clock in ("cupti", "graph"):
        for row in rows[clock].values():
            assert row.timing.sm_mhz == pytest.approx(usual, rel=0.1)


@pytest.mark.parametrize("label", SINGLE)
def test_calls_in_a_row_take_the_hosts_time_where_that_is_the_longer(rows, label):
    """What enqueues a call takes longer than the kernel, so the kernel's time is not in it at all."""
    host_us = rows["nvbench"][label].timing.cpu_time_us
    assert time_us(rows, "cupti", label) < time_us(rows, "events", label) < 2 * host_us


def test_the_hosts_time_is_its_own_and_not_the_kernels(rows):
    """The reference runs for more than ten times as long, and launches many kernels."""
    host_us = {label: rows["nvbench"][label].timing.cpu_time_us for label in (*SINGLE, "decode-reference")}
    assert all(0.5 < value < 1000 for value in host_us.values())
    assert host_us["decode-v4"] < time_us(rows, "nvbench", "decode-reference")
    assert host_us["decode-v4"] < host_us["decode-reference"]


def test_the_baseline_is_not_told_apart_from_itself_by_any_clock(rows):
    for clock in ("nvbench", "cupti", "graph"):
        assert rows[clock]["decode-reference@again"].versus.speedup == pytest.approx(1.0, abs=0.05)
