"""Recorded runs of unchanged kernels, on nine cards of three hosts: covered, and never called different."""

import importlib.util
import sys
from pathlib import Path
from statistics import median

import numpy as np
import pytest
from compare_data import compared, ratios_of

from gdnbench.analyse.run_change import TimeKind
from gdnbench.stats.interval import Verdict

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "unchanged_runs.py"
EVERY = 30


def _load_script():
    spec = importlib.util.spec_from_file_location("unchanged_runs", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where its dataclasses look for their annotations
    spec.loader.exec_module(module)
    return module


unchanged_runs = _load_script()


@pytest.fixture(scope="module")
def sources():
    return unchanged_runs.load_sources()


def named(sources, part):
    return next(each for each in sources if part in each.name)


def test_unchanged_kernels_are_covered_and_not_called_different(sources):
    found = unchanged_runs.tally(sources, EVERY)
    covered = [each for group in found.values() for each in group.covered]
    assert len(covered) > 150
    assert np.mean(covered) >= 0.93
    assert [claim for group in found.values() for claim in group.claims] == []
    assert median(found["one", 1, "stream"].single) < 0.008
    assert median(found["one", 64, "stream"].single) < 0.0065


def test_a_host_whose_launch_is_longer_makes_no_kernel_slower(sources):
    side = compared(named(sources, "-def"), named(sources, "solo0"))
    launch = side.columns[0].runs[0][2].stream.effect.whole
    assert launch.mean == pytest.approx(1.65, abs=0.03)
    kernels = [ratio for (label, _), ratio in ratios_of(side).items() if "floor" not in label]
    assert all(ratio.value == pytest.approx(1.0, abs=0.01) for ratio in kernels)
    assert max(ratio.comparison.speedup.half_width for ratio in kernels) < 0.017


def test_two_cards_with_kernel_times_are_told_within_a_few_percent(sources):
    one, other = (named(sources, f"w40-r2-g{card}") for card in (1, 2))
    for (label, _), ratio in ratios_of(compared(one, other)).items():
        assert ratio.kind is TimeKind.KERNEL
        if "floor" not in label:
            assert ratio.comparison.speedup.half_width < 0.03


def test_between_an_h200_and_an_h100_stream_times_claim_nothing_and_kernel_times_do(sources):
    h100 = named(sources, "h100")
    streams = ratios_of(compared(named(sources, "solo0"), h100))
    assert {ratio.comparison.verdict for ratio in streams.values()} == {Verdict.UNCLEAR}
    kernels = ratios_of(compared(named(sources, "w40-r2-g1"), h100))
    assert kernels["decode-v9", 8].comparison.verdict is Verdict.SLOWER
    assert kernels["decode-v9", 8].value == pytest.approx(3.9072 / 4.8187, rel=0.002)
