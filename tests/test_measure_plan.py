from collections import Counter
from dataclasses import replace
from itertools import groupby, pairwise

import pytest
from bundled import CATALOG
from decode_workloads import decode_at
from dispatch_data import H200_ROWS, write_dispatcher
from write_kernels import on_torch, write_kernel

from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.catalog.request import make_request
from gdnbench.errors import ExitCode, MachineError
from gdnbench.measure.plan import make_plan
from gdnbench.measure.schedule import memory_blocks, most_placed_bytes, placements_bytes, round_order, sample_count
from gdnbench.model.case import Case, Variant
from gdnbench.model.gpu import Gpu
from gdnbench.model.status import Role
from gdnbench.store.settings import Settings

VARIANTS = [Variant(f"decode-{name}", f"decode-{name}") for name in "abcdefgh"]
CASES = [Case(variant, decode_at()) for variant in VARIANTS]
IDS = [case.id for case in CASES]


H200, B200 = (
    Gpu(0, f"NVIDIA {name}", "GPU-0", capability) for name, capability in (("H200", (9, 0)), ("B200", (10, 0)))
)


def plan(kernels="decode-v4", gpu=H200, catalog=CATALOG, **more):
    request = make_request(catalog, "decode", kernels, axes="B=1,8", settings=Settings(), **more)
    return make_plan(catalog, request, gpu)


@pytest.fixture
def without_fla(monkeypatch):
    import importlib.util

    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "fla" else real(name))


def roles(found, workload=decode_at()):  # noqa: B008 - frozen
    return {case.label: case.role for case in found.cases if case.workload == workload}


def test_a_run_gets_a_baseline_its_control_and_the_floor():
    assert roles(plan()) == {
        "decode-fla": Role.BASELINE,
        "decode-v4": Role.KERNEL,
        "decode-floor-copy": Role.FLOOR,
        "decode-fla@again": Role.CONTROL,
    }


def test_without_fla_the_reference_stands_in_and_a_note_says_so(without_fla):
    found = plan()
    assert found.baseline == "decode-reference"
    assert roles(found)["decode-reference"] is Role.BASELINE
    (note,) = found.notes
    assert "decode-fla" in note
    assert "pip install 'gdnbench[fla]'" in note


def test_a_chosen_baseline_that_cannot_be_had_is_an_error(without_fla):
    with pytest.raises(MachineError, match="decode-fla cannot run here") as caught:
        plan(baseline="decode-fla")
    assert "--baseline" in caught.value.hint
    assert caught.value.exit_code is ExitCode.ENVIRONMENT


@pytest.mark.parametrize(
    ("axes", "baseline"),
    [("KEEP=1", "flashinfer"), ("KEEP=0", "fla"), ("KEEP=0,1", "reference"), ("T=1,4", "reference")],
)
def test_a_baseline_can_do_every_workload_of_the_run(axes, baseline, monkeypatch):
    monkeypatch.setattr("gdnbench.catalog.entry.CatalogEntry.missing", lambda entry: None)
    request = make_request(CATALOG, "verify", "verify-v1", axes=axes, settings=Settings())
    assert make_plan(CATALOG, request, H200).baseline == f"verify-{baseline}"


def only_mine(root, more=""):
    """A catalog of no other kernel than `decode-mine`."""
    write_kernel(root / "decode" / "mine", on_torch("decode-mine", more))
    (root / "decode" / "op.py").write_text((default_roots()[0] / "decode" / "op.py").read_text())
    return load_catalog([root])


def test_without_any_baseline_a_note_says_so(tmp_path, without_fla):
    found = plan("all", catalog=only_mine(tmp_path))
    assert found.baseline == ""
    assert roles(found) == {"decode-mine": Role.KERNEL}
    assert "no baseline" in found.notes[0]


def test_the_cases_of_a_workload_stay_together_in_an_order_that_changes():
    cases = [Case(variant, decode_at(B=batch)) for batch in (1, 8, 64) for variant in VARIANTS]
    order = round_order(cases, 60, seed=2)
    assert order == round_order(cases, 60, seed=2)
    workloads = []
    for ids in order:
        assert Counter(ids) == Counter(case.id for case in cases)
        met = [name for name, _ in groupby(case_id.partition("/")[2] for case_id in ids)]
        assert len(met) == 3
        workloads.append(tuple(met))
    assert len(set(workloads)) == 6


def test_workloads_are_measured_in_blocks_that_fit_into_memory():
    op = CATALOG.ops["decode"]
    cases = [Case(variant, decode_at(B=batch)) for batch in (1, 8, 64, 512) for variant in VARIANTS]
    budget = 300 << 30
    needed = {
        case.workload: placements_bytes(op.tensor_bytes(case.workload), 15, 48, most_placed_bytes(budget))
        for case in cases
    }
    assert sum(needed.values()) < budget
    assert memory_blocks(op, cases, 15, 48, budget, most_placed_bytes(budget)) == (tuple(cases),)
    one_each = memory_blocks(op, cases, 15, 48, 1, most_placed_bytes(1))
    assert [len({case.workload for case in block}) for block in one_each] == [1, 1, 1, 1]
    assert [case for block in one_each for case in block] == cases
    budget = 40 << 30
    for block in memory_blocks(op, cases, 15, 48, budget, most_placed_bytes(budget)):
        nbytes = [
            placements_bytes(op.tensor_bytes(workload), 15, 48, most_placed_bytes(budget))
            for workload in {case.workload for case in block}
        ]
        assert len(nbytes) == 1 or sum(nbytes) <= budget


def test_every_round_has_a_window_of_its_own_while_memory_lasts():
    mib, gib = 1 << 20, 1 << 30
    assert placements_bytes(mib, 15, 48, 16 * gib) == (2 * 15 * 32 + 4) * mib
    assert placements_bytes(64 * mib, 15, 48, 16 * gib) == (2 * 8 * 32 + 4) * 64 * mib
    assert placements_bytes(512 * mib, 15, 48, 16 * gib) == (2 * 8 * 4 + 4) * 512 * mib
    assert placements_bytes(32 * gib, 15, 48, 16 * gib) == (2 + 4) * 32 * gib  # one is the least there can be
    assert placements_bytes(64 * mib, 2, 10, 16 * gib) == (2 * 2 * 10 + 4) * 64 * mib  # no more than samples


def test_no_case_always_follows_another():
    pairs = Counter(pair for ids in round_order(CASES, 400, seed=1) for pair in pairwise(ids))
    assert len(pairs) == len(IDS) * (len(IDS) - 1)
    assert max(pairs.values()) < 2 * min(pairs.values())


@pytest.mark.parametrize(
    ("asked", "warm_us", "device", "samples"),
    [(10, 5.0, "cuda", 10), (500, 1e6, "cuda", 40), (500, 1e7, "cpu", 5), (500, 0.0, "cpu", 500), (3, 1e7, "cpu", 3)],
)
def test_a_slow_kernel_gets_fewer_samples_but_never_too_few(asked, warm_us, device, samples):
    assert sample_count(asked, warm_us, device) == samples


@pytest.fixture
def by_shape(tmp_path):
    return only_mine(
        tmp_path,
        ", params={'BV': Param(default=4, choices=(4, 8)), 'MODE': Param(default=1, choices=(1, 2))},"
        " presets={'decode-mine-wide': {'MODE': 2}}, by_shape={Shape(B=1): {}, Shape(B=8): {'BV': 8}}",
    )


def params(found, label):
    return [dict(case.variant.params) for case in found.cases if case.label == label]


def test_a_kernel_by_its_bare_name_takes_its_defaults_for_each_workload(by_shape):
    found = plan("decode-mine", catalog=by_shape)
    assert params(found, "decode-mine") == [{"BV": 4, "MODE": 1}, {"BV": 8, "MODE": 1}]
    assert {case.variant.kernel for case in found.cases} == {"decode-mine"}


@pytest.mark.parametrize(
    ("label", "wanted"), [("decode-mine:MODE=2", {"BV": 4, "MODE": 2}), ("decode-mine-wide", {"BV": 4, "MODE": 2})]
)
def test_params_that_are_named_hold_at_every_workload_beside_the_plain_defaults(by_shape, label, wanted):
    assert params(plan(label, catalog=by_shape), label) == [wanted, wanted]


def swept_plan(*names, gpu=None, **more):
    points = tuple(
        CATALOG.entries[name].with_params(CATALOG.entries[name].default, {"WARPS": warps})
        for name in names
        for warps in (2, 4)
    )
    request = make_request(CATALOG, "decode", ",".join(names), axes="B=1,8", settings=Settings(), **more)
    return make_plan(CATALOG, replace(request, variants=points, swept=dict.fromkeys(names, ("WARPS",))), gpu)


def test_a_sweep_of_which_nothing_runs_here_measures_no_baseline_either():
    found = swept_plan("decode-v4")
    assert (found.baseline, found.notes) == ("", ())
    assert set(roles(found)) == {"decode-v4:WARPS=2", "decode-v4:WARPS=4"}
    assert "decode-floor-copy" in roles(swept_plan("decode-v4", gpu=H200))


def test_a_swept_floor_is_its_own_floor_and_has_no_baseline():
    found = swept_plan("decode-floor-copy", gpu=H200)
    assert (found.baseline, found.notes) == ("", ())
    assert roles(found) == {"decode-floor-copy:WARPS=2": Role.FLOOR, "decode-floor-copy:WARPS=4": Role.FLOOR}


def test_a_floor_swept_among_kernels_leaves_them_their_baseline():
    found = swept_plan("decode-floor-copy", "decode-v4", gpu=H200)
    assert found.baseline == "decode-fla"
    assert roles(found)["decode-v4:WARPS=2"] is Role.KERNEL
    assert roles(found)["decode-floor-copy:WARPS=2"] is Role.FLOOR


TABLE = f"""{H200_ROWS}
[b200.qk4_v8]
source = "20260102-040506-b200-decode"
B1 = {{ kernel = "decode-v6", WARPS = 16 }}
"""


@pytest.fixture
def with_dispatcher(tmp_path):
    write_dispatcher(tmp_path, TABLE)
    return load_catalog([default_roots()[0], tmp_path])


def picked(found, label="decode-mine"):
    return [case.variant.in_full for case in found.cases if case.label == label]


def test_a_dispatcher_is_planned_as_the_kernel_that_it_picks_at_each_workload(with_dispatcher):
    found = plan("decode-mine", catalog=with_dispatcher)
    assert picked(found) == ["decode-v4 WARPS=2", "decode-v6 WARPS=8"]
    assert roles(found)["decode-mine"] is Role.KERNEL
    assert found.notes == ()


def test_a_gpu_that_the_table_does_not_have_is_told(with_dispatcher):
    rtx = Gpu(0, "NVIDIA GeForce RTX 3090", "GPU-0", (8, 6))
    found = plan("decode-mine", gpu=rtx, catalog=with_dispatcher)
    assert picked(found) == ["decode-v4 WARPS=2", "decode-v6 WARPS=8"]
    (note,) = found.notes
    assert "decode-mine has no rows for rtx3090" in note
    assert "h200" in note


def test_a_dispatcher_and_what_it_picks_are_cases_of_their_own(with_dispatcher):
    found = plan("decode-mine,decode-v6,decode-v4:WARPS=2", catalog=with_dispatcher)
    assert len({case.id for case in found.cases}) == len(found.cases)
    assert len(roles(found)) == len(roles(plan("decode-v4"))) + 2


def test_a_dispatcher_can_be_the_baseline(with_dispatcher):
    found = plan("decode-v4", catalog=with_dispatcher, baseline="decode-mine")
    assert found.baseline == "decode-mine"
    assert picked(found, "decode-mine@again") == picked(found) == ["decode-v4 WARPS=2", "decode-v6 WARPS=8"]
