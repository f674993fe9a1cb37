"""What is inspected when a user names kernels: those that a dispatcher picks, too."""

from pathlib import Path

import pytest
from bundled import CATALOG
from decode_workloads import decode_at

from gdnbench.catalog.catalog import load_catalog
from gdnbench.errors import UsageError
from gdnbench.inspect.compiled import DEFAULT_ARCHS, choose_archs, choose_subjects, gpu_size_of
from gdnbench.inspect.quantities import QUANTITIES, find_counterparts, parse_rules
from gdnbench.model.gpu import Gpu
from gdnbench.model.kernel import TorchKernel

WORKLOADS = (decode_at(B=1), decode_at(B=8), decode_at(B=64))
PICKS = CATALOG.entries["decode-auto"].dispatch


def test_a_dispatcher_is_what_it_picks_at_each_workload_under_its_own_name():
    subjects, notes = choose_subjects(CATALOG, "decode", ["decode-auto"], WORKLOADS)
    assert notes == ()
    assert [(each.entry.kernel.name, each.variant.params, each.workload) for each in subjects] == [
        (PICKS.pick(workload).kernel, PICKS.pick(workload).params, workload) for workload in WORKLOADS
    ]
    assert not any("auto" in each.name for each in subjects)


def test_what_a_dispatcher_picks_is_inspected_once_where_it_is_named_beside_it():
    pick = CATALOG.behind(CATALOG.entries["decode-auto"].default, WORKLOADS[0])[1]
    subjects, _ = choose_subjects(CATALOG, "decode", ["decode-auto", pick.label], WORKLOADS[:1])
    assert [each.name for each in subjects] == [pick.label]


def test_all_is_every_kernel_with_a_build_of_its_own_and_none_twice():
    subjects, notes = choose_subjects(CATALOG, "decode", [], WORKLOADS[:1])
    names = [each.name for each in subjects]
    assert len(names) == len(set(names))
    entries = [entry for entry in CATALOG.entries.values() if entry.op.name == "decode"]
    wanted = {e.kernel.name for e in entries if not isinstance(e.kernel, TorchKernel) and not e.dispatch}
    assert {each.entry.kernel.name for each in subjects} == wanted
    assert notes == ()


def test_a_kernel_that_is_reached_through_python_has_nothing_to_inspect():
    with pytest.raises(UsageError, match="decode-fla: reached through Python"):
        choose_subjects(CATALOG, "decode", ["decode-fla"], WORKLOADS)


def test_what_a_kernel_cannot_do_is_left_out_and_told():
    op = CATALOG.ops["verify"]
    fp32, bf16 = (
        op.workload({**op.default.sizes, **op.workloads.parse(f"state={state}")[0][0]}) for state in ("fp32", "bf16")
    )
    subjects, notes = choose_subjects(CATALOG, "verify", ["verify-v3", "verify-v2"], [fp32, bf16])
    assert [(each.name, each.workload) for each in subjects] == [
        ("verify-v2", fp32), ("verify-v3", bf16), ("verify-v2", bf16),
    ]  # fmt: skip
    assert notes == (f"verify-v3 cannot do {fp32}: tensor cores multiply bf16, and states have 32 bits",)
    with pytest.raises(UsageError, match="tensor cores multiply bf16") as raised:
        choose_subjects(CATALOG, "verify", ["verify-v3"], [fp32])
    assert raised.value.hint.startswith("ask for one that it can do: gdnbench inspect verify-v3 --shape B=1 ")
    assert raised.value.hint.endswith(" --shape state=bf16")


def toys(name="gemm-split"):
    catalog = load_catalog([Path(__file__).parent / "toys"])
    default = catalog.ops["gemm"].default
    return catalog, choose_subjects(catalog, "gemm", [name], [default])[0]


def test_every_launch_of_a_kernel_is_inspected_under_its_own_name():
    _, launches = toys()
    assert [each.title for each in launches] == ["gemm-split/partial_sums", "gemm-split/add_sums"]
    assert [each.name for each in launches] == ["gemm-split"] * 2
    assert [(each.request().grid, each.request().threads) for each in launches] == [((48, 2), 64), ((48,), 64)]
    (one,) = toys("gemm-cuda")[1]
    assert one.title == one.name == "gemm-cuda"


def test_launches_are_compared_by_their_entry_or_their_place():
    catalog, launches = toys()
    same = find_counterparts(launches, catalog, "gemm", "gemm-split:PARTS=4")
    assert [each.title for each in same] == [f"gemm-split:PARTS=4/{each.launch}" for each in launches]
    first = find_counterparts(launches[:1], catalog, "gemm", "gemm-cuda")
    assert [each.title for each in first] == ["gemm-cuda"]
    with pytest.raises(UsageError, match="gemm-cuda has no launch to compare gemm-split/add_sums with"):
        find_counterparts(launches, catalog, "gemm", "gemm-cuda")


ADA = Gpu(0, "NVIDIA GeForce RTX 4090", "GPU-1", (8, 9), sms=128)


def test_rules_are_read():
    found = [(rule.key, rule.sign, rule.bound) for rule in parse_rules("spills, regs>64,smem>=48K,occupancy < 50%")]
    assert found == [("spills", ">", 0), ("regs", ">", 64), ("smem", ">=", 48 * 1024), ("occupancy", "<", 50)]


def test_no_rules():
    assert parse_rules("") == ()


@pytest.mark.parametrize(
    "text", ["regs>", "regs>>3", ">3", "regs>x", "spills,", "regs=3", "regs>3G", "speed", "Regs>3"]
)
def test_what_is_no_rule_is_told_what_is(text):
    with pytest.raises(UsageError) as caught:
        parse_rules(text)
    assert all(name in caught.value.hint for name in QUANTITIES)


def test_the_gpu_at_hand_decides_else_the_defaults():
    assert choose_archs("", [ADA, ADA]) == ("sm_89",)
    assert choose_archs("", []) == DEFAULT_ARCHS
    assert choose_archs("sm_86, sm_90,sm_86", [ADA]) == ("sm_86", "sm_90")


@pytest.mark.parametrize("text", ["sm_75", "h200", "90", ","])
def test_what_is_no_architecture(text):
    with pytest.raises(UsageError):
        choose_archs(text, [])


def test_waves_are_counted_for_the_gpu_at_hand_or_one_whose_size_is_known():
    assert (gpu_size_of("sm_89", [ADA]).name, gpu_size_of("sm_89", [ADA]).sms) == ("rtx4090", 128)
    assert (gpu_size_of("sm_90a", [ADA]).name, gpu_size_of("sm_90", []).sms) == ("h200", 132)
    assert gpu_size_of("sm_120", []) is None
