"""Two runs get a verdict by either kind of time where enough is unchanged, and none where means differ in kind."""

from compare_data import compared, ratios_of, run_of

from gdnbench.analyse.run_change import TimeKind
from gdnbench.stats.interval import Verdict

KERNELS = {"decode-v4": 5.0, "decode-v8": 4.6, "decode-v9": 4.2}
CASE = ("decode-v9", 1)
CARDS = ({"GPU": "GPU-1"}, {"GPU": "GPU-2"})


def ratio_of(left, right, **more):
    times = {**KERNELS, "decode-v9": more.pop("time_us", KERNELS["decode-v9"])}
    sides = [
        run_of(KERNELS if name == "one" else times, name, conditions=each, **more)
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
