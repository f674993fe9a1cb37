"""In which scenarios a run verifies its cases."""

import json

import pytest
from decode_workloads import decode_at
from faults import answer
from run_data import case

from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.errors import UnknownNameError
from gdnbench.measuring.scenarios import FEW_WORKLOADS, scenarios_to_verify
from gdnbench.model.case import Case

DECODE = load_catalog(default_roots()[:1]).ops["decode"]
TIMED, *OTHERS = DECODE.scenarios
RUNS = {"usual": (), "other": ("--scenario", "large-state")}


def cases(workloads, *kernels):
    variants = [case(name).variant for name in kernels]
    return [Case(variant, decode_at(B=1 + place)) for place in range(workloads) for variant in variants]


def test_few_workloads_are_verified_in_all_scenarios():
    assert scenarios_to_verify(DECODE.scenarios, cases(FEW_WORKLOADS, "a", "b")) == {}


def test_of_many_workloads_each_is_verified_in_the_timed_scenario_and_one_other_in_turn():
    many = cases(FEW_WORKLOADS + 1, "a", "b")
    scenarios = scenarios_to_verify(DECODE.scenarios, many)
    assert scenarios.keys() == {each.id for each in many}
    assert all(timed == TIMED and other in OTHERS for timed, other in scenarios.values())
    for kernel in ("a", "b"):
        met = {scenarios[each.id][1] for each in many if each.variant.kernel == case(kernel).variant.kernel}
        assert met == set(OTHERS), "each kernel meets every scenario"


def test_an_op_with_one_scenario_has_no_other_to_take_in_turn():
    assert scenarios_to_verify((TIMED,), cases(FEW_WORKLOADS + 1, "a")) == {}


def test_a_scenario_that_is_named_is_timed_and_the_others_are_verified():
    assert DECODE.scenarios_from("") == DECODE.scenarios
    assert DECODE.scenarios_from("large-state") == ("large-state", *(n for n in DECODE.scenarios if n != "large-state"))
    with pytest.raises(UnknownNameError, match="decode has no scenario slow"):
        DECODE.scenarios_from("slow")


def test_a_run_of_another_scenario_says_so_and_draws_its_inputs(tmp_path):
    words = (
        "run",
        "decode-reference",
        "--gpu",
        "cpu",
        "--rounds",
        "2",
        "--samples",
        "2",
        "--shape",
        "B=1",
        "--seed",
        "1",
    )
    usual, other = (answer(*words, *more, "--out", str(tmp_path / name)) for name, more in RUNS.items())
    assert (usual.code, other.code) == (0, 0), other.err
    assert ", inputs large-state\n" in other.out
    assert "inputs" not in usual.out.splitlines()[0]
    [folder] = (tmp_path / "other").iterdir()
    info = json.loads((folder / "run.json").read_text())
    assert info["settings"]["scenario"] == "large-state"
    [usual_folder] = (tmp_path / "usual").iterdir()
    compared = answer("compare", str(usual_folder), str(folder))
    assert "inputs the first | large-state" in compared.out + compared.err


def test_a_scenario_that_does_not_exist_is_refused(tmp_path):
    done = answer("run", "decode-reference", "--gpu", "cpu", "--scenario", "slow", "--out", str(tmp_path))
    assert done.code == 2
    assert "decode has no scenario slow" in done.err
    assert "typical, saturated-gates" in done.err
