"""What an op's declarations say of the work at a workload, and nothing that is neither declared nor rated."""

import json
from dataclasses import replace

import pytest
from bundled import CATALOG
from decode_workloads import decode_at

from gdnbench.report.work import work_lines, work_of

V9 = CATALOG.entries["decode-v9"]


def _work(name="decode-v9", workload=None, gpu="h200"):
    entry = CATALOG.entries[name]
    workload = workload or entry.op.default
    return work_of(entry, entry.at(entry.default, workload), workload, gpu)


def test_bytes_flops_and_balance_are_those_of_a_hand_calculation():
    work = _work(workload=decode_at(B=64))
    sizes = {each.name: each.bytes for each in work.tensors}
    assert sizes["state"] == sizes["new_state"] == 64 * 8 * 128 * 128 * 4
    assert (sizes["q"], sizes["a"], sizes["A_log"]) == (64 * 4 * 128 * 2, 64 * 8 * 2, 8 * 4)
    flops, nbytes = 64 * 8 * 128 * (7 * 128 + 3), sum(sizes.values())
    assert (work.flops, work.least_bytes) == ({"fp32": flops}, nbytes)
    assert work.intensity == pytest.approx(flops / nbytes)
    assert work.balance == pytest.approx(67.0e12 / 4800e9)
    assert work.memory_us == pytest.approx(nbytes / 4800e9 * 1e6)
    assert work.flops_us == pytest.approx(flops / 67.0e12 * 1e6)
    assert "memory binds" in " ".join(work_lines(work))


@pytest.mark.parametrize("op", sorted(CATALOG.ops))
def test_every_tensor_of_every_op_is_counted_once(op):
    entry = next(each for each in CATALOG.entries.values() if each.op.name == op)
    work = _work(entry.kernel.name)
    assert work.total("read") + work.total("written") == entry.op.tensor_bytes(entry.op.default)
    assert work.least_bytes == entry.op.traffic_bytes(entry.op.default)
    json.dumps(work.document, allow_nan=False)


def test_of_a_gpu_without_a_data_sheet_no_peak_is_told():
    work = _work(gpu="nameless")
    assert (work.intensity is None, work.balance, work.memory_us) == (False, None, None)
    assert not any("peak" in line or "balance" in line for line in work_lines(work))


def test_a_precision_that_the_gpu_does_not_rate_leaves_the_balance_out():
    assert _work("nvfp4-gemv-v2", gpu="h200").balance is None
    assert _work("nvfp4-gemv-v2", gpu="b200").balance > 0


def test_precisions_are_worked_off_one_after_another():
    entry = replace(V9, op=replace(V9.op, flops=lambda _workload: {"fp32": 67 * 10**6, "bf16": 0}))
    assert work_of(entry, entry.default, entry.op.default, "h200").flops_us == pytest.approx(1.0)
    entry = replace(V9, op=replace(V9.op, flops=lambda _workload: {"fp32": 67 * 10**6, "fp64": 67 * 10**6}))
    work = work_of(entry, entry.default, entry.op.default, "h200")
    assert work.flops_us == pytest.approx(2.0)
    assert work.balance == pytest.approx(67.0e12 / 4800e9)


def test_an_op_that_declares_no_flops_has_no_intensity():
    entry = replace(V9, op=replace(V9.op, flops=lambda _workload: {}))
    work = work_of(entry, entry.default, entry.op.default, "h200")
    assert (work.intensity, work.balance, work.flops_us) == (None, None, None)
    assert [*work_lines(work)][-1] == "the op declares no FLOPs"


def test_scratch_stands_by_itself():
    work, params = _work("nvfp4-gemm-upcast"), CATALOG.entries["nvfp4-gemm-upcast"].default.params
    sizes = work_axes("nvfp4-gemm-upcast")
    assert work.total("scratch") == params["SPLIT"] * sizes["L"] * sizes["M"] * sizes["N"] * 4
    assert work.total("read") + work.total("written") == work.least_bytes


def work_axes(name):
    op = CATALOG.entries[name].op
    return op.named_sizes(op.default)


def test_inspect_and_explain_print_the_same_table(command_line):
    _, inspected, _ = command_line("inspect", "decode-v9", "--arch", "sm_90", "--shape", "B=8")
    _, explained, _ = command_line("explain", "decode-v9", "--gpu", "h200", "--shape", "B=8")
    table = inspected[inspected.index("\ntensor ") : inspected.index("\nnext:")].strip()
    assert table in explained
    assert "balance 14 on H200" in table
    documents = [
        json.loads(command_line("inspect", "decode-v9", "--arch", "sm_90", "--shape", "B=8", "--json")[1])[0]["work"],
        json.loads(command_line("explain", "decode-v9", "--gpu", "h200", "--shape", "B=8", "--json")[1])["work"],
    ]
    assert documents[0] == documents[1]
