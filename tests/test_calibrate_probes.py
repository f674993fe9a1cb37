"""The kernels of `doctor --latency` at small sizes, and the printed rates, of simulated machines, are true."""

import re

import numpy as np
import pytest
from calibration_data import SimulatedMachine, calibration, chains_of, comparisons, subject
from ptx_data import compiled, run

from gdnbench.calibrate.latency import SOURCE
from gdnbench.calibrate.measure import (
    LADDER,
    TARGETS,
    chain_of,
    choose_chains,
    comparisons_of,
    equal_rates,
    normal_deviate,
    pilot_plan,
    planted_rates,
    run_plan,
)
from gdnbench.calibrate.probe import CHAINS
from gdnbench.errors import MachineError
from gdnbench.model.status import Role
from gdnbench.ptx.segments import Tensor, tensor_address
from gdnbench.stats.paired import PairedLogRatio

SOURCE_TEXT = SOURCE.read_text()
CYCLES, NS, SM, RESULT = range(4)


def probe(entry, *values, **launch):
    """What a probe writes to its last tensor, `out`; the interpreter may find nothing."""
    out = np.zeros(4, dtype=np.uint64)
    found, _ = run(SOURCE_TEXT, *values, out, entry=f"gdnbench_{entry}", limit=10**6, **launch)
    assert found == ()
    return out


def ring(count):
    """Memory of which each word holds the address of the next to visit, and the addresses in the order of the visits.

    The first visit is to its beginning.
    """
    order = np.append(0, 1 + np.random.default_rng(1).permutation(count - 1))
    addresses = tensor_address(0) + 8 * order.astype(np.uint64)
    words = np.zeros(count, dtype=np.uint64)
    words[order] = np.roll(addresses, -1)
    return Tensor("`ring`", words.view(np.uint8)), addresses


@pytest.mark.parametrize("entry", ["chase_l1", "chase_l2"])
@pytest.mark.parametrize(("untimed", "steps"), [(0, 1), (5, 7), (64, 130)])
def test_a_chase_visits_the_places_in_the_order_of_their_addresses(entry, untimed, steps):
    memory, addresses = ring(64)
    out = probe(entry, memory, untimed, memory, steps, threads=1)
    assert out[RESULT] == addresses[steps % 64]


def test_the_time_of_a_chase_holds_its_timed_steps_alone():
    memory, _ = ring(64)
    few, many, late = (
        probe("chase_l2", memory, *each, threads=1) for each in ((0, memory, 8), (0, memory, 80), (90, memory, 8))
    )
    assert few[CYCLES] == late[CYCLES] < many[CYCLES]
    assert few[NS] < many[NS]


@pytest.mark.parametrize("steps", [1, 8, 1000])
def test_a_chase_of_shared_memory_visits_all_of_it(steps):
    assert probe("chase_shared", steps, threads=1)[RESULT] == 33 * steps % 1024


def test_single_trips_are_timed_line_by_line():
    stride, lines = 256, 7
    words = np.zeros(stride * lines // 8, dtype=np.uint64)
    words[:: stride // 8] = tensor_address(0) + np.arange(lines, dtype=np.uint64) * np.uint64(stride)
    cycles = np.zeros(lines + 1, dtype=np.int32)
    probe("line_cycles", words, stride, lines, cycles, threads=1)
    assert (cycles[:lines] > 0).all()
    assert cycles[lines] == 0


@pytest.mark.parametrize(
    ("entry", "blocks", "threads"),
    [("block_barrier", 1, 32), ("block_barrier", 1, 256), *((f"cluster_barrier_{n}", n, 64) for n in (2, 4, 8))],
)
def test_barriers_are_passed_as_often_as_asked_for(entry, blocks, threads):
    out = probe(entry, 20, blocks=(blocks, 1, 1), threads=threads)
    assert (out[RESULT], out[CYCLES] > 0) == (20, True)


def test_all_blocks_of_a_grid_meet_once_before_the_timed_meetings():
    arrived = np.zeros(1, dtype=np.uint32)
    out = probe("grid_barrier", 5, arrived, np.int64(10**9), blocks=(6, 1, 1), threads=64)
    assert (out[RESULT], arrived[0]) == (5, 36)


@pytest.mark.parametrize("lane_bytes", [2, 4, 8, 16])
def test_every_byte_of_a_blocks_part_is_read_once(lane_bytes):
    blocks, threads, rounds = 2, 1024, 2
    words = 8 * threads * rounds
    memory = np.random.default_rng(1).integers(0, 256, blocks * words * lane_bytes, dtype=np.uint8)
    sums = np.zeros(blocks * threads, dtype=np.uint32)
    probe(f"read_{lane_bytes}", memory, np.int64(words), sums, blocks=(blocks, 1, 1), threads=threads)
    part = 2 if lane_bytes == 2 else 4
    expected = np.bitwise_xor.reduce(memory.view({2: np.uint16, 4: np.uint32}[part]).reshape(blocks, -1), axis=1)
    np.testing.assert_array_equal(np.bitwise_xor.reduce(sums.reshape(blocks, threads), axis=1), expected)


@pytest.mark.parametrize("steps", [1, 33, 100])
def test_every_chain_takes_every_step(steps):
    out = probe("multiply_add", steps, 1.0, 1.0, blocks=(2, 1, 1), threads=64)
    assert out[RESULT] == sum(range(CHAINS)) + CHAINS * steps
    assert out[CYCLES] > 0


def test_operations_in_a_chain_are_fused_and_as_many_as_are_counted():
    text = compiled(SOURCE_TEXT, "compute_90a")
    body = text[text.index(".entry gdnbench_multiply_add(") :]
    loops = body[: body.index(".entry", 1)].split("bra")
    assert 32 * CHAINS in [loop.count("fma.rn.f32") for loop in loops]


def test_notes_of_clocks_stand_at_the_place_of_the_sm():
    noted = np.zeros((8, 2), dtype=np.int64)
    found, _ = run(SOURCE_TEXT, noted, entry="gdnbench_note_clocks", threads=1, limit=100)
    assert found == ()
    sms = np.flatnonzero(noted[:, 0])
    assert len(sms) == 1
    assert (noted[sms] > 0).all()


@pytest.mark.parametrize("arch", ["compute_80", "compute_90a", "compute_100"])
def test_the_probes_compile_and_those_of_clusters_are_of_hopper_and_later(arch):
    entries = re.findall(r"\.entry gdnbench_(\w+)", compiled(SOURCE_TEXT, arch))
    assert ("cluster_barrier_8" in entries) == (arch != "compute_80")
    assert {"chase_shared", "chase_l1", "chase_l2", "grid_barrier", "read_16"} < {*entries}


RUNS = 12


def total_of(compared):
    return calibration(equal=equal_rates(compared, 0.95)).all_equal


@pytest.fixture(scope="module")
def of():
    return subject()


@pytest.fixture(scope="module")
def honest(of):
    """A machine that has the noise which the model of a run knows, and no other."""
    return comparisons(SimulatedMachine(), of, run_plan, RUNS)


@pytest.fixture(scope="module")
def strayed(of):
    """A machine on which each kernel is another by 1 % in every run."""
    return comparisons(SimulatedMachine(hidden=0.01), of, run_plan, 8)


def test_where_runs_know_their_noise_the_rates_are_what_is_promised(honest):
    total = total_of(honest)
    assert total.comparisons == RUNS * 3 * 4
    assert total.claims <= 0.02 * total.comparisons
    assert 0.85 < total.rms_z < 1.15
    assert 0.92 < total.covered / total.comparisons < 0.98


def test_noise_that_no_interval_holds_shows_in_every_rate(strayed, honest):
    total = total_of(strayed)
    # Two kernels each 1 % off differ by more than the margin in most runs.
    assert total.claims > 0.15 * total.comparisons
    assert total.rms_z > 2
    assert total.covered < 0.75 * total.comparisons
    planted = planted_rates(strayed, 0.95)
    assert sum(each.covered for each in planted) < 0.8 * sum(each.comparisons for each in planted)
    assert sum(each.covered for each in planted_rates(honest, 0.95)) > 0.9 * sum(each.comparisons for each in planted)


def test_a_planted_slowdown_reads_as_what_it_is_and_is_found_by_its_size(honest):
    by_target = {}
    for each in planted_rates(honest, 0.95):
        assert each.slowdown == pytest.approx(each.target, abs=0.0015)
        assert each.comparisons == RUNS
        by_target.setdefault(each.target, []).append(each)
    assert list(by_target) == list(TARGETS)
    # In one of twenty the control is told apart from itself by chance, and the run claims nothing.
    assert sum(each.found for each in by_target[0.02]) > 0.88 * 3 * RUNS
    # What is smaller than the margin is no slowdown by the run's own rule, however well it is told apart.
    assert all(each.found == 0 for each in by_target[0.003])
    assert all(each.apart >= each.found for group in by_target.values() for each in group)
    assert sum(each.found for each in by_target[0.007]) < sum(each.found for each in by_target[0.01])


def test_a_case_without_a_time_is_left_out(of):
    machine = SimulatedMachine()
    chains = chains_of(machine, of.workloads)
    plan = run_plan(of, chains, 1)
    lost = next(case.id for case in plan.cases if case.role is Role.KERNEL and not chain_of(case))
    rates = equal_rates(comparisons_of(machine.analyse(plan, failing=(lost,)), chains), 0.95)
    assert sorted(each.comparisons for each in rates) == [3, 4, 4]


@pytest.mark.parametrize("rounds", [6, 42])
def test_the_deviates_of_a_t_have_a_mean_square_of_one(rounds):
    random = np.random.default_rng(3)
    logs = random.normal(0, 0.01, (2000, rounds))
    ratios = [PairedLogRatio.from_rounds(np.exp(each), np.ones(rounds)) for each in logs]
    assert np.mean([normal_deviate(each) ** 2 for each in ratios]) == pytest.approx(1.0, abs=0.12)


def test_the_pilot_finds_chains_that_cost_what_is_wanted(of):
    machine = SimulatedMachine()
    plan = pilot_plan(of)
    assert {chain_of(case) for case in plan.cases} == {0, *LADDER}
    found = choose_chains(machine.analyse(plan))
    assert set(found) == set(of.workloads)
    for workload, chains in found.items():
        assert list(chains.values()) == list(TARGETS)
        for chain, target in chains.items():
            assert machine.slowdown(workload.B, chain) == pytest.approx(target, abs=0.004)


def test_chains_differ_even_where_additions_cost_nothing(of):
    machine = SimulatedMachine(cost_us={1: 0.0, 8: 0.1, 64: 0.0})
    for chains in choose_chains(machine.analyse(pilot_plan(of))).values():
        assert list(chains.values()) == list(TARGETS)
        assert list(chains) == sorted(set(chains))
        assert min(chains) >= 1
        assert max(chains) <= LADDER[-1] + len(TARGETS)


def test_a_chain_without_a_time_ends_the_calibration(of):
    plan = pilot_plan(of)
    lost = next(case.id for case in plan.cases if chain_of(case) == LADDER[2])
    with pytest.raises(MachineError, match=f"CHAIN={LADDER[2]}.* has no time: the process died"):
        choose_chains(SimulatedMachine().analyse(plan, failing=(lost,)))
