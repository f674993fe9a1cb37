"""What two runs share: which cases tell it, and how much is left to each case."""

import math
from dataclasses import replace

import pytest
from compare_data import B1, figure, published, run_of, source

from gdnbench.compare.common_shift import ASSUMED, MANY, shift_between
from gdnbench.model.params import Params

KERNELS = {"decode-v1": 5.3, "decode-v4": 4.7, "decode-triton": 4.4}


def test_a_shift_of_all_cases_is_found_with_its_sign():
    shift = shift_between(run_of(KERNELS), run_of(KERNELS, "other", moved=1.02)).estimate()
    assert shift.percent == pytest.approx(2.0, abs=1e-9)
    assert shift.anchors == 12
    assert shift.scatter == pytest.approx(0, abs=1e-12)


def test_a_kernel_is_never_its_own_anchor():
    slow = run_of(KERNELS, "other", strays={("decode-v4", 1): 1.05, ("decode-v4", 8): 1.05})
    shift = shift_between(run_of(KERNELS), slow)
    assert shift.estimate("decode-v4").scatter == pytest.approx(0, abs=1e-12)
    assert shift.estimate("decode-v4").anchors == 10
    assert shift.estimate("decode-v1").mean == pytest.approx(0, abs=1e-12), "one of many moves no median"


def test_of_few_cases_floors_and_baselines_alone_tell():
    strays = {("decode-v4", 1): 1.2, ("decode-v1", 1): 1.2}
    shift = shift_between(run_of(KERNELS, shapes=(B1,)), run_of(KERNELS, "other", shapes=(B1,), strays=strays))
    assert len(shift.anchors) < MANY
    assert shift.labels() == ["decode-floor-copy", "decode-floor-empty", "decode-fla"]
    assert shift.estimate().mean == pytest.approx(0, abs=1e-12)


def test_the_scatter_of_few_is_their_standard_deviation_and_counts_for_a_single_case():
    strays = {("decode-floor-copy", 1): math.exp(0.01), ("decode-floor-empty", 1): math.exp(-0.01)}
    shift = shift_between(run_of({}, shapes=(B1,)), run_of({}, "other", shapes=(B1,), strays=strays)).estimate()
    assert shift.scatter == pytest.approx(0.01)
    assert shift.of_a_case.variance == pytest.approx(1e-4 * (1 + 1 / 3))
    assert shift.of_a_case.df == 2


@pytest.mark.parametrize("few", [(), ("decode-fla",)])
def test_too_few_anchors_leave_the_ratio_and_widen_it(few):
    runs = [source(*(figure(label, 4.0) for label in (*few, "decode-v4")), name=name) for name in "ab"]
    shift = shift_between(*runs).estimate()
    assert not shift.known
    assert shift.mean == 0
    assert 1.96 * math.sqrt(shift.of_a_case.variance) == pytest.approx(ASSUMED)


def changed(run, **more):
    return replace(run, figures=tuple(replace(each, **more) for each in run.figures))


def test_edited_sources_and_other_params_are_no_anchors():
    run = run_of(KERNELS)
    assert not shift_between(run, changed(run, source_hash="edited")).anchors
    assert not shift_between(run, changed(run, params=Params({"WARPS": 2}))).anchors


def test_kernels_of_unknown_sources_are_no_anchors_but_floors_are():
    run = changed(run_of(KERNELS), source_hash="")
    assert all(anchor.firm for anchor in shift_between(run, run).anchors)


def test_with_another_compiler_an_unchanged_source_is_no_unchanged_kernel():
    left, right = (run_of(KERNELS, name, conditions={"triton": name}) for name in ("3.6", "3.7"))
    assert all(anchor.firm for anchor in shift_between(left, right).anchors)
    known_of_one = shift_between(left, run_of(KERNELS, "third"))
    assert not all(anchor.firm for anchor in known_of_one.anchors)


def test_other_gpus_and_published_figures_share_nothing():
    run = run_of(KERNELS)
    assert shift_between(run, run_of(KERNELS, "other", gpu="b200")) is None
    assert shift_between(run_of(KERNELS, gpu=""), run_of(KERNELS, "other", gpu="")) is None
    assert shift_between(run, published(figure(rounds=0), gpu="h200")) is None
