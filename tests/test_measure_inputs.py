"""Whether a kernel's time depends on its inputs, and that all processes and timers time the same ones."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from bundled import CATALOG
from run_data import case

from gdnbench.analyse.rounds import Collected
from gdnbench.measure.inputs import SAMPLES, InputsProbe, effects_of_inputs
from gdnbench.model.case import Case
from gdnbench.model.measurement import InputsEffect
from gdnbench.model.status import Role, Status
from gdnbench.store.journal import Examined, Sampled
from gdnbench.store.settings import Settings
from gdnbench.verify.rotation import Workspaces
from gdnbench.workers.task import Phase, Task

PREFILL, DECODE = CATALOG.ops["prefill"], CATALOG.ops["decode"]
AT = PREFILL.workload({"lengths": (64,), "HQ": 1, "HV": 2})
V4, V3, FLA = (case(f"prefill-{name}").variant for name in ("v4", "v3", "fla"))
CASES = [
    Case(FLA, AT, Role.BASELINE),
    Case(V3, AT),
    Case(V4, AT),
    Case(FLA, AT, Role.CONTROL),
    Case(V3, AT, Role.FLOOR),
]


def test_kernels_and_baseline_are_tried_at_the_extremes_alone():
    probe = InputsProbe(PREFILL, CASES)
    assert [(each.label, each.workload.inputs) for each in probe.cases] == [
        (f"prefill-{name}", profile) for name in ("fla", "v3", "v4") for profile in ("forgetful", "never")
    ]
    assert all(each.workload.at("") == AT.at("") for each in probe.cases)


def test_a_kernel_at_an_extreme_has_its_samples_in_the_run_and_the_probes_in_the_probe():
    cases = tuple(replace(each, workload=AT.at("never")) for each in CASES)
    own = Task(
        Phase.MEASURE, "cuda", (), "prefill", cases, 1, 9.0,
        samples={each.id: 64 for each in cases}, launched={each.id: () for each in cases},
    )  # fmt: skip
    probe = InputsProbe(PREFILL, cases)
    assert {each.id for each in probe.cases} & own.samples.keys()
    assert probe.task(own).samples.items() >= own.samples.items()
    assert probe.samples(own) == {each.id: SAMPLES for each in probe.cases}


def test_a_run_of_the_extremes_tries_nothing_more_and_an_op_without_any_nothing_at_all():
    both = [replace(each, workload=AT.at(profile)) for each in CASES for profile in ("forgetful", "never")]
    assert InputsProbe(PREFILL, both).cases == ()
    assert InputsProbe(replace(PREFILL, profiles=(), profile=""), CASES).cases == ()


def collected_of(times_us, rounds=8, noise=0.002):
    random, collected = np.random.default_rng(1), Collected()
    for number in range(1, rounds + 1):
        level = random.normal(1, 0.01)
        for each, us in times_us.items():
            collected.take(Sampled(number, each.id, (us * level * random.normal(1, noise),) * 4, process=1))
    return collected


@pytest.mark.parametrize("in_probe", [True, False])
def test_a_kernel_that_depends_on_its_inputs_is_told_by_how_much_and_others_are_not(in_probe):
    probe = InputsProbe(PREFILL, CASES)
    slower = {V4: 4.0, V3: 1.0, FLA: 1.003}
    measured = collected_of(
        {each: 50 * (slower[each.variant] if each.workload.profile else 1.0) for each in probe.cases}
    )
    collected, probed = (Collected(), measured) if in_probe else (measured, Collected())
    effects = effects_of_inputs(PREFILL, CASES, collected, probed, Settings())
    found = {each.label: effects[each.id] for each in CASES[:3]}
    assert (found["prefill-v4"].worst, found["prefill-v4"].best) == ("never", "forgetful")
    assert found["prefill-v4"].low < 4.0 < found["prefill-v4"].high
    assert {label: (each.depends, each.is_alike) for label, each in found.items()} == {
        "prefill-v4": (True, False), "prefill-v3": (False, True), "prefill-fla": (False, True),
    }  # fmt: skip


def test_what_two_noisy_rounds_tell_is_neither_dependent_nor_alike():
    effect = InputsEffect("never", "forgetful", 1.2, 0.7, 2.1)
    assert (effect.depends, effect.is_alike) == (False, False)


def test_what_is_wrong_at_an_extreme_loses_the_case_that_was_timed():
    probe, probed = InputsProbe(PREFILL, CASES), Collected()
    never = next(each for each in probe.cases if each.variant == V4 and each.workload.profile == "never")
    probed.take(Examined(never.id, Status.WRONG_WHEN_TIMED, "wrong when it was timed"))
    [lost] = probe.losses(probed)
    assert (lost.case, lost.status) == (Case(V4, AT).id, Status.WRONG_WHEN_TIMED)
    assert lost.reason == "with never inputs: wrong when it was timed"


def test_what_failed_in_the_run_too_is_not_failed_again():
    probe, probed = InputsProbe(PREFILL, CASES), Collected()
    for each in probe.cases:
        probed.take(Examined(each.id, Status.TAMPERS, "changes what is timed"))
    without_v4 = InputsProbe(PREFILL, [each for each in CASES if each.variant != V4])
    assert {lost.case for lost in without_v4.losses(probed)} == {Case(V3, AT).id, Case(FLA, AT, Role.BASELINE).id}


def draws_of(op, workload, key):
    task = Task(Phase.MEASURE, "cpu", tuple(map(str, CATALOG.roots)), op, (), seed=1, step_limit_s=9.0, draw_key=key)
    return Workspaces(task).draws(workload)


SMALL = {"prefill": {"lengths": (3,), "HQ": 1, "HV": 2}, "decode": {"B": 2, "HQ": 1, "HV": 2}}


def found_by(draws, number):
    draws.begin(number)
    return [
        {name: tensor.clone() for name, tensor in draws.inputs(draws.choose(place, 0)).items()} for place in range(6)
    ]


def are_equal(one, other):
    return all(torch.equal(a[name], b[name]) for a, b in zip(one, other, strict=True) for name in a)


@pytest.mark.parametrize("op", SMALL)
def test_every_process_of_a_run_finds_the_same_inputs_and_no_other_run_does(op):
    workload = CATALOG.ops[op].workload(SMALL[op])
    one, again, other = (draws_of(op, workload, key) for key in ("a", "a", "b"))
    found_by(again, 1)  # another timer may have had fewer rounds before
    assert are_equal(found_by(one, 5), found_by(again, 5))
    assert not are_equal(found_by(one, 5), found_by(other, 5))
    assert not are_equal(found_by(one, 5), found_by(one, 6))


def test_rounds_have_draws_of_their_own_where_times_may_depend_on_them():
    def values(op, number):
        draws = draws_of(op, CATALOG.ops[op].workload(SMALL[op]), "a")
        draws.begin(number)
        return draws.tensors[1]["a"].clone()

    assert torch.equal(values("decode", 1), values("decode", 2))
    assert not torch.equal(values("prefill", 1), values("prefill", 2))


def test_what_makes_a_decay_is_of_one_draw():
    draws = draws_of("decode", DECODE.workload(SMALL["decode"]), "a")
    seen = set()
    for place in range(60):
        chosen = draws.inputs(draws.choose(place, 0))
        of = {name: next(i for i in (0, 1) if chosen[name] is draws.tensors[i][name]) for name in chosen}
        assert of["A_log"] == of["dt_bias"] == of["a"]
        seen.add(tuple(of.values()))
    assert len(seen) > 20


def test_a_worker_takes_the_key_of_the_draws_out_of_its_task(tmp_path):
    path = tmp_path / "measure-0.json"
    Task(Phase.MEASURE, "cpu", (), "decode", (Case(V3, AT),), seed=1, step_limit_s=9.0, draw_key="secret").write(path)
    task = Task.take(path)
    assert task.draw_key == "secret"
    assert "secret" not in path.read_text()
    assert json.loads(path.read_text())["draw_key"] == ""
    assert replace(task, draw_key="") == Task.read(path)
