"""Which forms a copying floor has, which are tried, which is chosen, and what a run makes of the choice."""

import random
from pathlib import Path
from types import SimpleNamespace

import pytest
from bundled import CATALOG
from decode_workloads import decode_at
from hypothesis import given
from hypothesis import strategies as st
from run_data import case

from gdnbench.catalog.entry import CatalogEntry
from gdnbench.catalog.request import make_request
from gdnbench.codegen.builds import Builds, build_jobs
from gdnbench.errors import BuildError
from gdnbench.measure.plan import make_plan
from gdnbench.measure.timing import as_chosen, find_forms, forms_to_try, in_every_form
from gdnbench.model.case import Variant
from gdnbench.model.declaration import Param, Params
from gdnbench.model.gpu import Build, Gpu
from gdnbench.model.kernel import TorchKernel
from gdnbench.model.status import Role, Status
from gdnbench.model.workload import Shape
from gdnbench.store.journal import Examined
from gdnbench.store.settings import GPU_TRIM, Settings
from gdnbench.verify.forms import (
    CLEARLY,
    FEWEST_TRIAL_SAMPLES,
    MOST_TRIAL_SAMPLES,
    FormTrial,
    choose_form,
    count_samples,
    sample_interleaved,
)
from gdnbench.workers.task import Phase, Task

DECODE = CATALOG.ops["decode"]
H200 = Gpu(index=0, name="NVIDIA H200", uuid="GPU-1", capability=(9, 0))
COPY = "decode-floor-copy"


def floor(floor="copy", by_shape=None, **more):
    kernel = TorchKernel(
        name="decode-f",
        floor=floor,
        params={"ROWS": Param(default=1, choices=(1, 2, 4))},
        by_shape={Shape(B=1): {"ROWS": 2}, Shape(B=8): {"ROWS": 2}, Shape(B=64): {"ROWS": 4}}
        if by_shape is None
        else by_shape,
        **more,
    )
    return CatalogEntry(kernel, DECODE, Path(), Path(), "")


@pytest.mark.parametrize(("batch", "rows"), [(1, [2, 1, 4]), (8, [2, 1, 4]), (64, [4, 1, 2])])
def test_a_floors_forms_are_its_settings_by_shape_and_its_defaults_those_of_the_workload_first(batch, rows):
    entry = floor()
    forms = entry.forms(entry.default, decode_at(B=batch))
    assert [(form.label, form.params["ROWS"]) for form in forms] == [("decode-f", each) for each in rows]


def test_what_the_user_fixed_and_what_is_no_copying_floor_has_one_form():
    entry = floor(presets={"decode-f4": {"ROWS": 4}})
    for variant in (entry.with_params(entry.default, {"ROWS": 1}), *entry.presets):
        assert entry.forms(variant, decode_at(B=1)) == (variant,)
    for kind in ("", "empty"):
        other = floor(kind)
        assert other.forms(other.default, decode_at(B=1)) == (other.default,)
    alone = floor(by_shape={})
    assert alone.forms(alone.default, decode_at(B=1)) == (alone.default,)


def planned(kernels="decode-v4", gpu=H200, axes="B=1,64", **more):
    request = make_request(CATALOG, "decode", kernels, axes=axes, settings=Settings(), **more)
    return make_plan(CATALOG, request, gpu).cases


def test_on_a_gpu_the_floor_of_each_workload_is_tried_in_the_same_forms():
    found = find_forms(CATALOG, planned(), "cuda")
    assert {case_id.partition("/")[0] for case_id in found} == {COPY}
    one, other = found.values()
    assert set(one) == set(other)
    assert len(one) > 1


def test_a_floor_as_baseline_is_tried_and_its_control_follows():
    cases = planned(baseline=COPY)
    tried = find_forms(CATALOG, cases, "cuda")
    assert {each.role for each in cases if each.id in tried} == {Role.BASELINE}


def test_every_form_is_built_before_the_trial():
    cases = planned()
    forms = find_forms(CATALOG, cases, "cuda")
    jobs = build_jobs(CATALOG, in_every_form(cases, forms), ("sm_90",))
    built = {(variant, workload) for variant, workload, _, _ in jobs if variant.kernel == COPY}
    for each in cases:
        if each.id in forms:
            assert {(form, each.workload) for form in forms[each.id]} <= built


def build_of(each, arch="sm_90"):
    return each.variant, each.workload, arch, "f"


FORMS = tuple(Variant("decode-f", "decode-f", params=Params({"ROWS": rows})) for rows in (2, 1, 4))


def builds(made=(), failed=()):
    return Builds(
        made={build_of(each): Build("sm_90", 8, 0, 0, 128, 4096) for each in made},
        failed={build_of(each): BuildError(f"no ROWS={each.variant.params['ROWS']}", "x") for each in failed},
    )


def test_a_form_that_does_not_compile_is_not_tried_and_only_the_lack_of_any_fails_the_floor():
    bare = case("decode-f", Role.FLOOR)
    forms = {bare.id: FORMS}
    first, second, third = in_every_form([bare], forms)
    some = builds(made=(second, third), failed=(first,))
    assert forms_to_try([bare], forms, some, ["sm_90"]) == {bare.id: ({"ROWS": 1}, {"ROWS": 4})}
    assert not some.verdicts(in_every_form([bare], forms), ["sm_90"])
    none = builds(failed=(first, second, third))
    assert forms_to_try([bare], forms, none, ["sm_90"]) == {}
    verdict = none.verdicts(in_every_form([bare], forms), ["sm_90"])[bare.id]
    assert (verdict.status, verdict.reason) == (Status.BUILD_FAILED, "no ROWS=2")


def test_a_case_goes_on_in_the_form_that_was_chosen_and_keeps_its_id():
    cases = (case("decode-f", Role.FLOOR, ROWS=2), case("decode-v4", WARPS=8), case("decode-v9"))
    checked = {each.id: Examined(each.id, Status.OK) for each in cases[:2]}
    checked[cases[0].id] = Examined(cases[0].id, Status.OK, params={"ROWS": 4})
    chosen = as_chosen(cases, checked)
    assert chosen[1:] == cases[1:]
    assert chosen[0].variant.params == {"ROWS": 4}
    assert [each.id for each in chosen] == [each.id for each in cases]


@given(
    declared=st.floats(1.0, 1e3),
    others=st.lists(st.floats(0.5, 2.0), min_size=1, max_size=5),
    seed=st.integers(0, 2**32),
)
def test_the_declared_form_stays_unless_another_is_clearly_faster(declared, others, seed):
    noise = random.Random(seed)
    means = [declared, *(declared * other for other in others)]
    times = [[mean + noise.choice((-0.001, 0.0, 0.001)) * mean for _ in range(64)] for mean in means]
    chosen = choose_form(times, GPU_TRIM)
    slower_by = means[chosen] / min(means) - 1
    assert slower_by < CLEARLY + 0.003
    if declared < (1 + CLEARLY - 0.003) * min(means):
        assert chosen == 0


def test_forms_take_turns_in_changing_order_and_warm_ups_are_no_samples():
    launched = []

    def form(name):
        def launch():
            launched.append(name)
            return float(launched.count(name))

        return launch

    times = sample_interleaved([form("a"), form("b"), form("c")], warm_ups=3, samples=20, seed=7)
    assert times == [[float(number) for number in range(4, 24)]] * 3
    turns = [tuple(launched[start : start + 3]) for start in range(0, len(launched), 3)]
    assert {frozenset(turn) for turn in turns} == {frozenset("abc")}
    assert len({turn[0] for turn in turns}) == 3


@given(warm_us=st.lists(st.floats(0.5, 1e6), min_size=2, max_size=8), overhead_us=st.sampled_from([0.0, 100.0]))
def test_a_trial_takes_a_fifth_of_a_second_unless_a_form_is_very_slow(warm_us, overhead_us):
    samples = count_samples(warm_us, overhead_us)
    assert FEWEST_TRIAL_SAMPLES <= samples <= MOST_TRIAL_SAMPLES
    if samples > FEWEST_TRIAL_SAMPLES:
        assert samples * sum(each + overhead_us for each in warm_us) <= 200_000


def conducted(verdicts):
    """The verdict of a trial whose forms have these by ROWS."""
    bare = case("decode-f", Role.FLOOR)
    forms = {bare.id: tuple({"ROWS": rows} for rows in verdicts)}
    task = Task(Phase.EXAMINE, "cpu", (), "decode", (bare,), seed=1, step_limit_s=1.0, forms=forms)
    asked = []

    def examine(form):
        asked.append(form.variant.params["ROWS"])
        return verdicts[asked[-1]]

    return FormTrial(task, SimpleNamespace(send=lambda _event: None), None, None).conduct(bare, examine), asked


def test_the_one_form_that_is_fit_is_taken_and_the_others_are_told():
    wrong, fine = Examined("x", Status.WRONG_NUMBERS, "not a copy"), Examined("x", Status.OK, launches=1)
    verdict, asked = conducted({2: wrong, 1: fine, 4: wrong})
    assert asked == [2, 1, 4]
    assert (verdict.status, verdict.params, verdict.launches) == (Status.OK, {"ROWS": 1}, 1)
    assert verdict.notes == ("not as ROWS=2: not a copy", "not as ROWS=4: not a copy")


def test_a_form_that_takes_the_process_down_ends_the_trial_and_is_named():
    lost = Examined("x", Status.CRASHED, "illegal address", poisoned=True)
    verdict, asked = conducted({2: Examined("x", Status.OK), 1: lost, 4: Examined("x", Status.OK)})
    assert asked == [2, 1]
    assert verdict.poisoned
    assert verdict.reason == "as ROWS=1: illegal address"
