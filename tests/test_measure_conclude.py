"""What a sweep's rounds say: plateaus, the simplest point, one point for all workloads. And whole races, simulated."""

from types import SimpleNamespace

import numpy as np
import pytest
from decode_workloads import decode_at
from run_data import case, collect
from simulated_gpu import SimulatedGpu

from gdnbench.analyse.conclude import conclude, simplicity
from gdnbench.analyse.rounds import Collected, Sampled
from gdnbench.model.declaration import Param, Params
from gdnbench.model.kernel import TorchKernel
from gdnbench.model.measurement import Place
from gdnbench.model.status import Role
from gdnbench.store.journal import BURN_IN
from gdnbench.store.settings import Settings

SMALL, LARGE, HUGE = decode_at(B=1), decode_at(B=8), decode_at(B=64)
PARAMS = {"BV": Param(default=8, choices=(16, 8, 4, 2)), "WARPS": Param(default=4, choices=(1, 2, 4, 8))}
CATALOG = SimpleNamespace(
    entries={
        name: SimpleNamespace(kernel=TorchKernel(name=name, params=PARAMS, floor="copy" if "floor" in name else ""))
        for name in ("decode-x", "decode-other", "decode-floor")
    }
)


def point(bv, warps=4, workload=SMALL, kernel="decode-x"):
    return case(f"{kernel}:BV={bv}:WARPS={warps}", workload=workload, BV=bv, WARPS=warps)


def sweep(times_us, rounds=60, cases=None, swept=None, **settings):
    collected = collect({each.id: time_us for each, time_us in times_us.items()}, rounds=rounds, samples=20)
    kernels = dict.fromkeys(each.variant.kernel for each in times_us)
    swept = swept or {kernel: ["BV", "WARPS"] for kernel in kernels}
    return conclude(CATALOG, cases or list(times_us), swept, collected, Settings(budget_s=60.0, **settings))


def test_points_come_fastest_first_with_what_they_cost():
    found = sweep({point(4): 5.0, point(8): 4.0, point(16): 4.4})
    assert [each.label for each in found.points] == [point(bv).label for bv in (8, 16, 4)]
    assert [each.slower_by for each in found.points] == pytest.approx([0.0, 0.1, 0.25], abs=0.01)
    assert [each.place for each in found.points] == [Place.BEST, Place.SLOWER, Place.SLOWER]
    for each in found.points[1:]:
        assert 0.005 < each.slower_lo < each.slower_by < each.slower_hi
    assert [each.rounds for each in found.points] == [60, 60, 60]
    assert dict(found.points[0].params) == {"BV": 8, "WARPS": 4}


def test_a_plateau_is_the_best_and_all_that_tie_with_it():
    found = sweep({point(4): 4.0, point(8): 4.002, point(16): 4.4}, margin=0.01)
    (plateau,) = found.plateaus
    assert set(plateau.tied) == {point(4).label, point(8).label}
    assert plateau.best in plateau.tied
    assert plateau.unclear == ()
    second = found.points[1]
    assert plateau.within == second.slower_hi
    assert second.slower_by < plateau.within <= 0.01


def test_the_simplest_is_nearest_to_the_defaults_even_if_it_is_not_the_fastest():
    found = sweep({point(16, 8): 4.0, point(16): 4.002, point(2): 4.002, point(4, 2): 4.001}, margin=0.02)
    (plateau,) = found.plateaus
    assert len(plateau.tied) == 4
    assert plateau.simplest == point(16).label  # one param away, as is BV=2, which is declared later


def test_simplicity_counts_changes_first_and_then_follows_the_choices_as_declared():
    kernel = CATALOG.entries["decode-x"].kernel
    points = [Params({"BV": bv, "WARPS": warps}) for bv in (2, 4, 8, 16) for warps in (8, 4, 2, 1)]
    points.sort(key=lambda params: simplicity(kernel, params))
    one_away = [(16, 4), (8, 1), (8, 2), (8, 8), (4, 4), (2, 4)]
    assert [(each.BV, each.WARPS) for each in points[:7]] == [(8, 4), *one_away]
    assert points[7].BV == 16


def test_what_cannot_be_told_from_the_best_is_unclear():
    found = sweep({point(8): 4.0, point(4): 4.02, point(16): 8.0}, rounds=3)
    (plateau,) = found.plateaus
    assert [each.place for each in found.points] == [Place.BEST, Place.UNCLEAR, Place.SLOWER]
    assert plateau.unclear == (point(4).label,)
    assert plateau.tied == (point(8).label,)


def test_a_point_that_left_the_race_stays_slower_whatever_its_few_rounds_say_now():
    lasting, dropped = point(8), point(4)
    collected = collect({lasting.id: 4.0, dropped.id: 4.03}, rounds=3, samples=20)
    collected.take(Sampled(4, lasting.id, (4.0,) * 20))
    found = conclude(CATALOG, [lasting, dropped], {"decode-x": ["BV"]}, collected, Settings())
    assert found.points[1].slower_lo < 0.005  # which by itself would be unclear
    assert found.points[1].place is Place.SLOWER
    assert [each.rounds for each in found.points] == [4, 3]


def test_the_last_look_is_as_strict_as_the_race_was():
    """The verdicts that are stored spend no chance of an error that the race has spent already."""
    times = {point(8).id: 4.0, point(4).id: 4.04}

    def after(looks):
        collected = collect(times, rounds=8, samples=20)
        for case_id in times:
            for _ in range(looks):
                collected.take(Sampled(BURN_IN, case_id, (4.0,)))
        return conclude(CATALOG, [point(8), point(4)], {"decode-x": ["BV"]}, collected, Settings()).points[1]

    first, second, ninth = after(1), after(2), after(9)
    assert ninth.slower_lo < second.slower_lo < first.slower_lo
    assert ninth.slower_by == first.slower_by


def regrets(*rows):
    """A sweep over three workloads; each row is a point and its times."""
    return sweep(
        {point(*at, workload): time_us for at, times in rows for workload, time_us in zip((SMALL, LARGE, HUGE), times)}  # noqa: B905
    )


def test_one_point_for_all_workloads_is_the_one_whose_worst_is_least():
    found = regrets(
        ((4, 4), (4.0, 6.0, 20.0 * 1.30)),  # the best at two workloads
        ((16, 8), (4.0 * 1.08, 6.0 * 1.08, 20.0 * 1.08)),  # the best at none
        ((2, 4), (4.0 * 1.2, 6.0 * 1.2, 20.0)),
    )
    (one,) = found.one_for_all
    assert one.label == point(16, 8).label
    assert list(one.regret) == [SMALL, LARGE, HUGE]
    assert list(one.regret.values()) == pytest.approx([0.08] * 3, abs=0.01)


def test_of_those_within_the_margin_the_simplest_is_the_one_for_all():
    found = regrets(((16, 8), (4.0, 6.0, 20.0)), ((8, 4), (4.005, 6.005, 20.02)), ((2, 4), (5.0, 7.0, 30.0)))
    assert found.one_for_all[0].label == point(8, 4).label


def test_where_no_point_works_everywhere_there_is_none_for_all():
    assert sweep({point(4, workload=SMALL): 4.0, point(8, workload=LARGE): 5.0}).one_for_all == ()


def test_the_values_tried_are_told_in_the_order_of_the_grid_even_if_they_failed():
    tried = [point(bv, warps) for bv in (16, 2, 4) for warps in (8, 1)]
    found = sweep({tried[2]: 4.0, tried[3]: 4.1}, cases=tried)
    assert found.axes == {"decode-x": {"BV": [16, 2, 4], "WARPS": [8, 1]}}
    assert list(found.axes["decode-x"]) == ["BV", "WARPS"]
    assert len(found.points) == 2


def test_without_a_measurement_there_is_a_sweep_without_points():
    found = conclude(CATALOG, [point(4)], {"decode-x": ["BV"]}, Collected(), Settings(budget_s=60.0))
    assert (found.points, found.plateaus, found.one_for_all, found.budget_s) == ((), (), (), 60.0)


def simulated(seed, budget_s=600.0):
    """A whole sweep of 12 points at two workloads: at the small one three tie, at the large one a single point wins."""
    random = np.random.default_rng(seed)
    grid = [(bv, warps) for bv in (2, 4, 8) for warps in (1, 2, 4, 8)]
    small = dict(zip(grid, 4.0 * (1 + random.uniform(0.012, 0.4, len(grid))), strict=True))
    large = dict(zip(grid, 20.0 * (1 + random.uniform(0.012, 0.4, len(grid))), strict=True))
    tied = [grid[place] for place in random.choice(len(grid), 3, replace=False)]
    best = grid[random.integers(len(grid))]
    small |= {tied[0]: 4.0, tied[1]: 4.0, tied[2]: 4.001}
    large[best] = 20.0
    times = {point(*at, workload): all_at[at] for workload, all_at in ((SMALL, small), (LARGE, large)) for at in grid}
    base = {
        case("decode-x", role, workload): 5.0 for workload in (SMALL, LARGE) for role in (Role.BASELINE, Role.CONTROL)
    }
    gpu = SimulatedGpu({**times, **base}, noise=0.003, seed=seed)
    collected, _ = gpu.run(gpu.race(budget_s))
    assert gpu.now_s <= budget_s
    found = conclude(CATALOG, gpu.cases, {"decode-x": ["BV", "WARPS"]}, collected, Settings(budget_s=budget_s))
    return found, {point(*at).label for at in tied}, point(*best).label, collected


def test_whole_sweeps_find_the_plateau_and_the_best():
    for seed in range(5):
        found, tied, best, collected = simulated(seed)
        small, large = found.plateaus
        assert set(small.tied) == tied
        assert large.tied == (best,)
        assert (small.unclear, large.unclear) == ((), ())
        rounds = [len(each) for each in collected.samples.values()]
        assert sum(rounds) < 0.6 * len(rounds) * max(rounds)  # of what no racing at all would have cost


def test_a_sweep_that_ran_out_of_budget_never_drops_the_best():
    for seed in range(5):
        found, tied, best, _ = simulated(seed, budget_s=11.0)
        small, large = found.plateaus
        assert tied <= {*small.tied, *small.unclear}
        assert best in {*large.tied, *large.unclear}


def floor(bv, workload=SMALL):
    return case(f"decode-floor:BV={bv}:WARPS=4", Role.FLOOR, workload, BV=bv, WARPS=4)


def other(bv, workload=SMALL):
    return point(bv, workload=workload, kernel="decode-other")


def test_at_each_workload_the_kernels_best_points_are_held_against_each_other():
    found = sweep(
        {
            point(4): 4.0, point(8): 4.4, other(4): 4.8, other(8): 4.4,
            point(4, workload=LARGE): 9.0, other(8, LARGE): 8.0, other(4, LARGE): 8.5,
        }
    )  # fmt: skip
    assert [(each.label, each.place) for each in found.final(SMALL)] == [
        (point(4).label, Place.BEST),
        (other(8).label, Place.SLOWER),
    ]
    assert [each.label for each in found.final(LARGE)] == [other(8).label, point(4).label]
    assert found.final(SMALL)[1].slower_by == pytest.approx(0.1, abs=0.01)
    assert found.final(SMALL)[1].slower_lo < found.final(SMALL)[1].slower_by < found.final(SMALL)[1].slower_hi


def test_a_kernel_whose_race_ended_early_is_compared_in_the_rounds_that_both_had():
    """And may lead: that the others raced on among themselves is no merit."""
    quick, slow = other(4), point(4)
    collected = collect({quick.id: 4.0, slow.id: 4.4}, rounds=7, samples=20)
    for number in range(8, 40):  # by which time the GPU has become faster
        collected.take(Sampled(number, slow.id, (3.0,) * 20))
    swept = {"decode-x": ["BV"], "decode-other": ["BV"]}
    found = conclude(CATALOG, [quick, slow], swept, collected, Settings())
    best, second = found.final(SMALL)
    assert (best.label, second.label) == (quick.label, slow.label)
    assert second.slower_by == pytest.approx(0.1, abs=0.01)
    assert (best.rounds, second.rounds) == (7, 7)


def test_kernels_that_share_no_round_are_not_compared():
    early, late = other(4), point(4)
    collected = collect({early.id: 4.0}, rounds=2, samples=20)
    for number in (3, 4):
        collected.take(Sampled(number, late.id, (3.0,) * 20))
    found = conclude(CATALOG, [early, late], {"decode-x": ["BV"], "decode-other": ["BV"]}, collected, Settings())
    assert found.finals == ()
    assert len(found.plateaus) == 2


def test_a_floor_is_no_rival_of_kernels():
    assert sweep({floor(4): 3.0, point(4): 4.0}).finals == ()
    found = sweep({floor(4): 3.0, point(4): 4.0, other(4): 4.4})
    assert {each.kernel for each in found.finals} == {"decode-x", "decode-other"}
