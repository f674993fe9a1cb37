"""On which kinds of inputs a run verifies its cases."""

import pytest
from committed import EVIDENCE
from decode_workloads import decode_at
from faults import answer
from run_data import case

from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.model.case import Case
from gdnbench.verify.preflight import FEW_WORKLOADS, scenarios_to_verify

OPS = load_catalog(default_roots()[:1]).ops
DECODE, PREFILL = OPS["decode"], OPS["prefill"]
TIMED, *OTHERS = DECODE.scenarios


def cases(workloads, *kernels):
    variants = [case(name).variant for name in kernels]
    return [Case(variant, decode_at(B=1 + place)) for place in range(workloads) for variant in variants]


def test_of_many_workloads_each_is_verified_in_the_timed_scenario_and_one_other_in_turn():
    many = cases(FEW_WORKLOADS + 1, "a", "b")
    scenarios = scenarios_to_verify(DECODE, many)
    assert scenarios.keys() == {each.id for each in many}
    assert all(timed == TIMED and other in OTHERS for timed, other in scenarios.values())
    for kernel in ("a", "b"):
        met = {scenarios[each.id][1] for each in many if each.variant.kernel == case(kernel).variant.kernel}
        assert met == set(OTHERS), "each kernel meets every scenario"


def test_of_profiles_at_the_same_sizes_each_is_verified_and_one_meets_the_scenarios():
    workloads = [PREFILL.workload({"lengths": (64,)}).at(name) for name in ("mixed-heads", "forgetful", "never")]
    scenarios = scenarios_to_verify(PREFILL, [Case(case("prefill-v3").variant, each) for each in workloads])
    assert list(scenarios.values()) == [("mixed-heads", *PREFILL.scenarios), ("typical",), ("never",)]


@pytest.mark.parametrize("verb", ["run", "score", "verify", "sweep", "history"])
def test_a_profile_that_does_not_exist_is_refused_with_those_that_do(verb, tmp_path):
    name = "decode-triton" if verb == "sweep" else "decode-reference" if verb != "history" else "decode-v9"
    options = ("--out", EVIDENCE) if verb == "history" else ("--gpu", "cpu")
    done = answer(verb, name, *options, "--profile", "sometimes")
    assert done.code == 2
    assert "decode has no profile sometimes" in done.err
    assert "there are: forgetful, fla, mixed-heads, one-never, slow, never" in done.err
