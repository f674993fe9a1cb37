"""In which scenarios a run verifies its cases."""

from dataclasses import replace

from decode_workloads import decode_at
from run_data import case

from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.measuring.scenarios import FEW_WORKLOADS, scenarios_to_verify
from gdnbench.model.case import Case

DECODE = load_catalog(default_roots()[:1]).ops["decode"]
TIMED, *OTHERS = DECODE.scenarios


def cases(workloads, *kernels):
    variants = [case(name).variant for name in kernels]
    return [Case(variant, decode_at(B=1 + place)) for place in range(workloads) for variant in variants]


def test_few_workloads_are_verified_in_all_scenarios():
    assert scenarios_to_verify(DECODE, cases(FEW_WORKLOADS, "a", "b")) == {}


def test_of_many_workloads_each_is_verified_in_the_timed_scenario_and_one_other_in_turn():
    many = cases(FEW_WORKLOADS + 1, "a", "b")
    scenarios = scenarios_to_verify(DECODE, many)
    assert scenarios.keys() == {each.id for each in many}
    assert all(timed == TIMED and other in OTHERS for timed, other in scenarios.values())
    for kernel in ("a", "b"):
        met = {scenarios[each.id][1] for each in many if each.variant.kernel == case(kernel).variant.kernel}
        assert met == set(OTHERS), "each kernel meets every scenario"


def test_an_op_with_one_scenario_has_no_other_to_take_in_turn():
    assert scenarios_to_verify(replace(DECODE, scenarios=(TIMED,)), cases(FEW_WORKLOADS + 1, "a")) == {}
