"""The printed rates are true: of a simulated machine whose noise the intervals hold, and of one where they do not."""

import numpy as np
import pytest
from calibration_data import SimulatedMachine, calibration, chains_of, comparisons, subject

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
from gdnbench.errors import MachineError
from gdnbench.model.status import Role
from gdnbench.stats.paired import PairedLogRatio

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
