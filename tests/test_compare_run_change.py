"""What two runs share: which cases tell it, how much is left to each case, and where that gives no verdict."""

from dataclasses import replace

import pytest
from committed import RESULTS
from compare_data import B1, compared, figure, ratios_of, run_of, source

from gdnbench.analyse.run_change import RunChange, TimeKind
from gdnbench.analyse.sources import load_sources
from gdnbench.model.declaration import Params
from gdnbench.stats.interval import Verdict

KERNELS = {"decode-v1": 5.3, "decode-v4": 4.7, "decode-triton": 4.4}


def change_of(left, right, label, batch=1):
    sides = [
        next(each for each in run.figures if (each.label, each.workload.B) == (label, batch)) for run in (left, right)
    ]
    return RunChange(left, right).change(*sides)


def test_a_launch_is_found_in_microseconds_with_its_sign():
    effect = RunChange(run_of(KERNELS), run_of(KERNELS, "other", launch=0.12)).effect
    assert effect.whole.mean == pytest.approx(0.12, abs=1e-3)
    assert effect.peers == 10, "the floor that does nothing tells little"


def test_a_kernel_is_never_its_own_peer():
    slow = run_of(KERNELS, "other", strays={("decode-v4", 1): 1.05, ("decode-v4", 8): 1.05})
    runs = RunChange(run_of(KERNELS), slow)
    sides = [next(each for each in run.figures if each.label == "decode-v4") for run in (run_of(KERNELS), slow)]
    assert runs.effect_on(*sides).peers == 8
    assert runs.effect_on(*sides).whole.mean == pytest.approx(0, abs=1e-3)


def test_a_launch_that_fades_at_large_workloads_is_taken_out_where_it_is():
    """As two stored runs of one card: 0.09 µs at B=1, none at large batches."""
    left, right = run_of(KERNELS), run_of(KERNELS, "other")
    fading = [
        replace(each, time_us=each.time_us + 0.09, rounds_us=each.rounds_us + 0.09) if each.workload == B1 else each
        for each in right.figures
    ]
    right = replace(right, figures=tuple(fading))
    for batch in (1, 8):
        ratio = change_of(left, right, "decode-v4", batch)
        assert ratio.mean == pytest.approx(0, abs=0.002)
        assert ratio.half_width(0.95) < 0.01


def test_changed_floors_tell_it_where_nothing_else_does():
    left, right = run_of({}), run_of({}, "other", launch=0.2)
    right = replace(right, figures=tuple(replace(each, source_hash="edited") for each in right.figures))
    runs = RunChange(left, right)
    assert runs.presumed
    assert {left.label for left, _ in runs.unchanged} == {"decode-floor-copy"}
    assert runs.effect.whole.mean == pytest.approx(0.2, abs=0.01)
    surer = RunChange(left, run_of({}, "other", launch=0.2)).effect.whole.variance
    assert runs.effect.whole.variance > 1.3 * surer


def test_a_baseline_that_was_edited_is_no_launch():
    """Two stored runs whose baseline became 2 to 37 µs slower, and all else hardly: a kernel read 2.7 times as fast."""
    left, right = load_sources(["20261124-171845", "20261125-093358"], RESULTS)
    runs = RunChange(left, right)
    assert not runs.unchanged
    sides = [next(each for each in run.figures if each.label == "prologue-v1") for run in (left, right)]
    change = runs.change(*sides)
    assert change.mean == pytest.approx(0.03, abs=0.01)


@pytest.mark.parametrize(("card", "within_us"), [("GPU-1", 0.5), ("GPU-2", 5.0)])
def test_without_unchanged_cases_the_launch_stays_and_is_in_the_interval(card, within_us):
    runs = [source(figure("decode-v4", 4.0), name=name, conditions={"GPU": name}) for name in ("GPU-1", card)]
    change = change_of(*runs, "decode-v4")
    assert RunChange(*runs).effect_on(*(run.figures[0] for run in runs)).peers == 0
    assert 0.1 < 4.0 * change.half_width(0.95) / within_us < 1.0


def unchanged_in(*runs):
    return [*dict.fromkeys(left.label for left, _ in RunChange(*runs).unchanged)]


def changed(run, **more):
    return replace(run, figures=tuple(replace(each, **more) for each in run.figures))


def test_edited_sources_and_other_params_are_not_unchanged():
    run = run_of(KERNELS)
    assert unchanged_in(run, changed(run, source_hash="edited")) == ["decode-floor-copy"]
    assert not RunChange(run, changed(run, params=Params({"WARPS": 2}))).unchanged


def test_kernels_of_unknown_sources_are_not_unchanged_but_floors_are():
    run = changed(run_of(KERNELS), source_hash="")
    assert unchanged_in(run, run) == ["decode-floor-copy", "decode-fla"]


def test_with_another_compiler_an_unchanged_source_is_no_unchanged_kernel():
    left, right = (run_of(KERNELS, name, conditions={"triton": name}) for name in ("3.6", "3.7"))
    assert unchanged_in(left, right) == ["decode-floor-copy", "decode-fla"]
    assert len(unchanged_in(left, run_of(KERNELS, "third"))) == 5


FAST = {"decode-v4": 5.0, "decode-v8": 4.6, "decode-v9": 4.2}
CASE = ("decode-v9", 1)
CARDS = ({"GPU": "GPU-1"}, {"GPU": "GPU-2"})


def ratio_of(left, right, **more):
    times = {**FAST, "decode-v9": more.pop("time_us", FAST["decode-v9"])}
    sides = [
        run_of(FAST if name == "one" else times, name, conditions=each, **more)
        for name, each in (("one", left), ("other", right))
    ]
    return ratios_of(compared(*sides))[CASE]


def test_across_cards_a_kernel_that_is_much_slower_is_called_so_by_its_kernel_time():
    ratio = ratio_of(*CARDS, kernel_times=True, time_us=5.0)
    assert (ratio.kind, ratio.comparison.verdict, ratio.reason) == (TimeKind.KERNEL, Verdict.SLOWER, "")


def test_across_cards_few_kernels_that_agree_do_not_make_another_surer_than_a_percent():
    ratio = ratio_of(*CARDS, kernel_times=True)
    speedup = ratio.comparison.speedup
    assert speedup.half_width > 0.01
    assert ratio.comparison.verdict is Verdict.UNCLEAR


def test_means_with_other_shares_of_samples_left_out_get_no_verdict():
    trimmed = ratio_of({"GPU": "GPU-1"}, {"GPU": "GPU-1", "trim": "5%"}, time_us=5.0)
    assert trimmed.comparison.verdict is Verdict.UNCLEAR
    assert trimmed.reason == "samples are trimmed by 25% at either end in one run, by 5% in the other"
    alike = ratio_of({"GPU": "GPU-1", "trim": "25%"}, {"GPU": "GPU-1"}, time_us=5.0)
    assert (alike.comparison.verdict, alike.reason) == (Verdict.SLOWER, "")
