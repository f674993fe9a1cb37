"""A short simulation of the decode step's gates: honest fp32 passes with room to spare, and no mistake does."""

import math
from collections import defaultdict

import numpy as np
import pytest
import torch
from decode_workloads import decode_at

from benchmarks.gates import __main__ as command
from benchmarks.gates import units
from benchmarks.gates.honest import Step, short_gates, threshold_gates
from benchmarks.gates.simulate import Simulation, decode_op, log10_chance_above, log10_of_sum
from gdnbench.launch import Workspace
from gdnbench.model.workload import Shape
from gdnbench.verify.check import check_outputs, consult_oracle

VERIFICATIONS = 4
OP, NUMERICS = decode_op()


@pytest.fixture(scope="module")
def findings():
    simulation = Simulation(decode_at(HQ=1, HV=2, V=32))
    for seed in range(VERIFICATIONS):
        simulation.verify(10 * seed)
    return simulation.findings


def test_honest_kernels_stay_far_below_the_limit(findings):
    largest = {key: max(errors) for key, errors in findings.honest.items()}
    assert len(largest) == 9 * 2 * len(OP.scenarios)
    assert not any(findings.refused.values())
    assert max(largest.values()) < 0.6
    assert all(error < 0.25 for (variant, _, _), error in largest.items() if variant in {"reference", "v1 to v6"})


def test_every_mistake_fails_in_every_verification(findings):
    by_mistake = defaultdict(list)
    for (mistake, _), errors in findings.mistakes.items():
        by_mistake[mistake].append(errors)
    assert len(by_mistake) == 16
    smallest = {mistake: np.max(errors, axis=0).min() for mistake, errors in by_mistake.items()}
    assert {mistake: error for mistake, error in smallest.items() if error < 4} == {}


def gates_at_their_worst(gates, always, *, decays):
    """A new state of one element that is g, or beta, by special functions that err all they may; of 16,000 heads."""
    workload = decode_at(B=2000, HQ=8, HV=8, K=1, V=1)
    workspace = Workspace.make(OP, NUMERICS, workload, seed=5, device="cpu", scenario="typical")
    t = workspace.inputs
    random = torch.Generator().manual_seed(6)
    t["a"].copy_(20 * torch.randn(t["a"].shape, generator=random))
    t["b"].copy_(20 * torch.randn(t["b"].shape, generator=random))
    t["state"].fill_(float(decays))
    for name in ("k", "v", "q"):
        t[name].fill_(float(not decays))
    g, beta = gates(Step.of(t, workspace.scalars), units.SpecialFunctions(random, always))
    state = (g if decays else beta)[..., None]
    output = workspace.scalars["scale"] * state[..., 0] * t["q"].float()
    return check_outputs(OP, (output[:, 0, None].bfloat16(), state), consult_oracle(workspace, NUMERICS), "typical")[2]


@pytest.mark.parametrize("decays", [True, False], ids=["g", "beta"])
@pytest.mark.parametrize("always", [1, -1])
@pytest.mark.parametrize("gates", [short_gates, threshold_gates])
def test_gates_whose_special_functions_err_all_they_may_take_half_the_limit(gates, always, decays):
    found = gates_at_their_worst(gates, always, decays=decays)
    assert 0.05 < found.worst / found.limit < 0.55


@pytest.mark.parametrize("scenario", OP.scenarios)
def test_the_roundoff_follows_the_units_that_values_are_in(scenario):
    """Twice the state and v are twice the outputs, and twice what they may be off by."""
    workload = decode_at(B=2, HQ=2, HV=4, K=32, V=16)
    tensors, scalars = NUMERICS.make_inputs(workload, 3, "cpu", scenario)
    doubled = {**tensors, "state": 2 * tensors["state"], "v": 2 * tensors["v"]}
    once, twice = NUMERICS.roundoff(tensors, scalars), NUMERICS.roundoff(doubled, scalars)
    for name, size in once.items():
        torch.testing.assert_close(twice[name], 2 * size)


def test_the_roundoff_of_a_small_state_beside_a_large_value_is_that_of_the_value():
    workload = decode_at(HQ=1, HV=1, K=32, V=2)
    tensors, scalars = NUMERICS.make_inputs(workload, 3, "cpu", "zero-b")
    before = NUMERICS.roundoff(tensors, scalars)["new_state"]
    tensors["v"][0, 0, 0, 0] = 1000
    after = NUMERICS.roundoff(tensors, scalars)["new_state"]
    assert after[0, 0, 0].mean() > 10 * before[0, 0, 0].mean()
    assert torch.equal(after[0, 0, 1], before[0, 0, 1])


@pytest.mark.parametrize(
    "dot", [units.one_chain, units.four_a_lane, units.two_chains, units.rounded_tree, units.shuffled(torch.Generator())]
)
def test_every_order_of_summation_sums_every_product_once(dot):
    random = torch.Generator().manual_seed(2)
    x = torch.randint(-99, 99, (3, 5, 128), generator=random).float()
    y = torch.randint(-99, 99, (3, 1, 128), generator=random).float()
    assert torch.equal(dot(x, y), (x * y).sum(-1))  # whole numbers below 2^24: any order is exact


def test_multiply_adds_round_once():
    x = torch.tensor([1 + 2.0**-23])
    assert float(units.fma(x, x, -(x * x))) == 2.0**-46


def test_special_functions_err_within_their_limits_and_reach_them():
    random = torch.Generator().manual_seed(4)
    x = 40 * torch.rand(20_000, generator=random) - 20
    for always, least in ((0, 1.8), (1, 1.5), (-1, 1.5)):
        unit = units.SpecialFunctions(random, always)
        exact = torch.exp2(x.double())
        ulp = torch.ldexp(torch.ones_like(exact), torch.frexp(exact)[1] - 24)
        off = (unit.ex2(x).double() - exact) / ulp
        assert least < off.abs().max() <= 2.5
        assert bool((off > 0).all()) is (always > 0)
        near = 1 + torch.rand(20_000, generator=random)
        error = unit.lg2(near).double() - torch.log2(near.double())
        assert 0.9 * 2.0**-22 < error.abs().max() <= 2.0**-22 + 2.0**-24


def test_the_polynomial_is_log1p():
    u = torch.linspace(0, 1, 10_001)[1:]
    exact = torch.log1p(u.double())
    assert ((units.log1p_polynomial(u) - exact).abs() / exact).max() < 3e-7


def test_the_chance_above_a_limit_is_that_of_the_distribution_fitted():
    maxima = np.random.default_rng(0).gumbel(0.2, 0.05, 100_000)
    assert log10_chance_above(0.5, maxima) == pytest.approx(-(0.5 - 0.2) / 0.05 * math.log10(math.e), abs=0.1)
    assert 10 ** log10_chance_above(0.5, maxima) == pytest.approx(np.mean(maxima > 0.5), rel=0.3)
    assert log10_chance_above(1.0, [0.1, 0.1]) == -math.inf
    with pytest.raises(ValueError, match="two"):
        log10_chance_above(1.0, [0.1])
    assert log10_of_sum([-400.0, -400.0]) == pytest.approx(-400 + math.log10(2))


def test_the_command_prints_and_writes_both_tables(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(command, "PLAN", ((Shape(HQ=1, HV=1), 2),))
    command.main(["--out", str(tmp_path), "--share", "0.01"])
    printed = capsys.readouterr().out
    for name, label in (("honest", "FLA"), ("mistakes", "k.S in TF32")):
        assert label in printed
        assert label in (tmp_path / f"{name}.csv").read_text()
