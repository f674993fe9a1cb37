"""Steps whose states go to other slots than they come from: oracles, what the gates find, kernels without a GPU."""

from functools import cache
from itertools import product

import pytest
import test_verify_drafts as drafts
import torch
from library_data import failures, load_with
from verified_kernels import gate_statuses

from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.launch import Workspace
from gdnbench.launch.numerics import load_numerics
from gdnbench.model.workload import Shape
from gdnbench.verify.check import consult_oracle

CATALOG = load_catalog(default_roots()[:1])
OPS = {name: CATALOG.ops[name] for name in ("verify-rollback", "decode-split")}
NUMERICS = {name: load_numerics(op, CATALOG.op_folders[name]) for name, op in OPS.items()}
SCENARIOS = [(name, scenario) for name, op in OPS.items() for scenario in op.scenarios]
IN_STEP = (
    "keys are not normalised", "values of the next head", "the last state in bf16", "one element a thousandth off",
)  # fmt: skip
"""What kernels of these ops do wrong as those of `verify` may."""
MISTAKES = {
    "verify-rollback": (
        "padding reads by its count", "padding writes slot 0", "padding writes what its slots count from the end",
        "the count of the next row", "counts from 0", "rolled back to the last draft", "rows permuted",
        "states saved ahead", "states saved a token late", "the state that was read is written over alone",
        "all states in the last slot", "another slot is cleared", *IN_STEP,
    ),
    "decode-split": (
        "padding reads slot 0", "padding writes its slot", "padding writes slot 0", "what is not kept goes to slot 0",
        "what is not kept counts from the end", "the slot that is read is written, too", "reads where it writes",
        "writes where it reads", "rows permuted", "another slot is cleared", *IN_STEP,
    ),
}  # fmt: skip
"""What kernels get wrong; each must fail in some scenario."""


@cache
def drawn(op, scenario, batch=7, seed=1, **sizes):
    workload = OPS[op].workload(Shape(B=batch, **drafts.SIZES, **sizes))
    return workload, *NUMERICS[op].make_inputs(workload, seed, "cpu", scenario)


def tokens(t):
    """The inputs of `verify`, but for its slot: those of one token get T."""
    return t if t["a"].dim() == 3 else t | {name: t[name][:, None] for name in ("mixed_qkv", "a", "b")}


def expected(op, t, scale, beta_limit):
    """The op as its docstring has it, a sequence after the other, each from the pool as it was."""
    slots = t["slots"] if op == "verify-rollback" else t["write_slot"][:, None]
    read = t["read_slot"].tolist() if op == "decode-split" else [
        row[count - 1] if row[0] > 0 else 0 for row, count in zip(slots.tolist(), t["accepted"].tolist(), strict=True)
    ]  # fmt: skip
    found = drafts.one_by_one(tokens(t) | {"slot": torch.tensor(read)}, scale, beta_limit, drafts.EACH)
    pool = t["pool"].double()
    for n, row in enumerate(slots.tolist()):
        for i, slot in enumerate(row):
            if read[n] > 0 and slot > 0:
                pool[slot] = found["states"][n, i]
    return {"output": found["output"] if op == "verify-rollback" else found["output"][:, 0], "new_pool": pool}


def rolled_back(t, scale, beta_limit, mistake=""):
    """The outputs of a kernel of verify-rollback in fp32, with a mistake if one is asked for."""
    slots, count = t["slots"].long(), t["accepted"].long()
    B, T = slots.shape
    at = torch.arange(B) * T + count - 1
    if mistake == "the count of the next row":
        at = torch.arange(B) * T + count.roll(-1).clamp(1, T) - 1
    if mistake == "counts from 0":
        at = torch.arange(B) * T + count.clamp(0, T - 1)
    if mistake == "rolled back to the last draft":
        at = torch.arange(B) * T + T - 1
    read = slots.flatten()[at.clamp(0, B * T - 1)]
    if mistake != "padding reads by its count":
        read = torch.where(slots[:, 0] > 0, read, 0)
    found = drafts.computed(t | {"slot": read}, scale, beta_limit, drafts.EACH, mistake)
    states, pool = found["states"], t["pool"].clone()
    first = t["pool"][read.clamp(min=0)][:, None]
    if mistake == "states saved ahead":
        states = torch.cat([states[:, 1:], states[:, -1:]], 1)
    if mistake == "states saved a token late":
        states = torch.cat([first, states[:, :-1]], 1)
    if mistake == "rows permuted":
        slots = torch.where(slots > 0, slots.roll(1, dims=0), slots)
    if mistake == "all states in the last slot":
        slots = slots[:, -1:].expand(B, T)
    if mistake == "the state that was read is written over alone":
        slots, states = read[:, None], states[:, -1:]
    written = slots > 0
    if mistake == "padding writes slot 0":
        slots, written = slots.clamp(min=0), torch.ones_like(written)
    if mistake == "padding writes what its slots count from the end":
        written = slots != 0
    pool[slots[written]] = states[written]
    if mistake == "another slot is cleared":
        pool[nobodys(t["slots"], pool)] = 0.0
    return {"output": found["output"], "new_pool": pool}


def split(t, scale, beta_limit, mistake=""):
    """The outputs of a kernel of decode-split in fp32, with a mistake if one is asked for."""
    read, write = t["read_slot"].long(), t["write_slot"].long()
    from_slot = write if mistake == "reads where it writes" else read
    found = drafts.computed(tokens(t) | {"slot": from_slot}, scale, beta_limit, drafts.EACH, mistake)
    states, pool, output = found["states"][:, 0], t["pool"].clone(), found["output"][:, 0]
    if mistake == "padding reads slot 0":
        everyone = drafts.computed(
            tokens(t) | {"slot": from_slot}, scale, beta_limit, drafts.EACH, "padding writes its output"
        )
        output = everyone["output"][:, 0]
    written = (read > 0) & (write > 0)
    if mistake == "padding writes its slot":
        written = write > 0
    if mistake == "rows permuted":
        write = torch.where(written, write.roll(1), write)
        written = written & (write > 0)
    if mistake == "writes where it reads":
        write = read
    if mistake == "what is not kept counts from the end":
        written = (read > 0) & (write != 0)
    if mistake == "what is not kept goes to slot 0":
        write, written = write.clamp(min=0), read > 0
    if mistake == "padding writes slot 0":
        write, written = torch.where(read > 0, write, 0), written | (read <= 0)
    pool[write[written]] = states[written]
    if mistake == "the slot that is read is written, too":
        pool[read[read > 0]] = states[read > 0]
    if mistake == "another slot is cleared":
        pool[nobodys(torch.stack([read, write]), pool)] = 0.0
    return {"output": output, "new_pool": pool}


def nobodys(slots, pool):
    return (set(range(1, len(pool))) - set(slots.flatten().tolist())).pop()


COMPUTED = {"verify-rollback": rolled_back, "decode-split": split}


@cache
def judged(op, scenario, **shape):
    """What the gates hold outputs to: the oracle's, and their roundoff."""
    _, t, scalars = drawn(op, scenario, **shape)
    return NUMERICS[op].oracle(t, scalars), NUMERICS[op].roundoff(t, scalars)


def worst(op, scenario, outputs, **shape):
    return drafts.worst(outputs, *judged(op, scenario, **shape), OPS[op])


@pytest.mark.parametrize(("op", "scenario"), SCENARIOS)
@pytest.mark.parametrize("state", [32, 16])
def test_the_oracle_is_the_recurrence_and_fp32_passes_by_far(op, scenario, state):
    _, t, scalars = drawn(op, scenario, STATE=state)
    found = judged(op, scenario, STATE=state)[0]
    for name, right in expected(op, t, **scalars).items():
        torch.testing.assert_close(found[name], right, rtol=1e-9, atol=1e-12)
    assert worst(op, scenario, COMPUTED[op](t, **scalars), STATE=state) < 0.3


@pytest.mark.parametrize(("op", "mistake"), [(op, each) for op, mistakes in MISTAKES.items() for each in mistakes])
def test_a_mistake_fails_in_some_scenario(op, mistake):
    found = {}
    for scenario in OPS[op].scenarios:
        _, t, scalars = drawn(op, scenario)
        found[scenario] = worst(op, scenario, COMPUTED[op](t, **scalars, mistake=mistake))
    assert max(found.values()) > 1, found


@pytest.mark.parametrize(("op", "scenario"), SCENARIOS)
def test_slots_of_nobody_may_not_change_by_a_bit(op, scenario):
    _, t, scalars = drawn(op, scenario)
    outputs = COMPUTED[op](t, **scalars)
    mine = torch.cat([each.flatten() for name, each in t.items() if name in {"slots", "read_slot", "write_slot"}])
    for place in (0, nobodys(mine, t["pool"])):
        changed = outputs["new_pool"].clone()
        changed.view(torch.int32)[place, 1, 2, 3] += 1
        assert worst(op, scenario, outputs | {"new_pool": changed}) > 1


@pytest.mark.parametrize("seed", range(5))
def test_slots_are_drawn_apart_and_counts_reach_both_ends(seed):
    _, t, _ = drawn("verify-rollback", "typical", batch=40, seed=seed)
    slots = t["slots"].flatten().tolist()
    assert len(set(slots)) == 40 * 4
    assert min(slots) >= 1
    assert any(abs(one - other) > 1 for one, other in t["slots"][:, :2].tolist())
    assert set(t["accepted"].tolist()) == {1, 2, 3, 4}
    _, t, _ = drawn("decode-split", "typical", batch=40, seed=seed)
    assert len(set(t["read_slot"].tolist() + t["write_slot"].tolist())) == 80


def test_scenarios_draw_what_they_are_named_for():
    for scenario, counts in (("one-accepted", {1}), ("all-accepted", {4}), ("padded", {0, 1, 2, 3, 4, 5})):
        assert set(drawn("verify-rollback", scenario, batch=40)[1]["accepted"].tolist()) == counts
    padded = drawn("verify-rollback", "padded", batch=40)[1]
    assert {0, -1} < set(padded["slots"].flatten().tolist())
    assert (padded["accepted"][padded["slots"][:, 0] > 0] >= 1).all()
    read, write = (drawn("decode-split", "in-place")[1][name] for name in ("read_slot", "write_slot"))
    assert torch.equal(read, write)
    assert len(set(drawn("decode-split", "forked")[1]["read_slot"].tolist())) == 1
    for scenario in OPS["decode-split"].scenarios:
        read, write = (drawn("decode-split", scenario)[1][name].tolist() for name in ("read_slot", "write_slot"))
        kept = [slot for slot in write if slot > 0]
        assert len(set(kept)) == len(kept)
        assert not [1 for (i, r), (j, w) in product(enumerate(read), enumerate(write)) if r == w > 0 and i != j]


@pytest.mark.parametrize(("op", "moved"), [("verify-rollback", 5), ("decode-split", 2)])
def test_the_least_that_must_move_are_states_that_are_read_and_written(op, moved):
    workload = OPS[op].workload(Shape(B=8))
    assert OPS[op].copy_bytes(workload) == moved * 8 * 4 * 8 * 128 * 128
    assert OPS[op].copy_bytes(workload) < OPS[op].traffic_bytes(workload) < 1.03 * OPS[op].copy_bytes(workload)
    narrow = OPS[op].workload(Shape(B=8, STATE=16))
    assert OPS[op].copy_bytes(workload) == 2 * OPS[op].copy_bytes(narrow)


KERNELS = ("v1", "v1:MOST_LANES=32:WARPS=8", "floor-copy:EACH=4", "reference")


@pytest.mark.parametrize("shape", ["B=4", "B=2 state=bf16"])
@pytest.mark.parametrize(("op", "kernel"), [(op, f"{op}-{each}") for op in OPS for each in KERNELS])
def test_kernels_are_right_where_there_is_no_gpu(request, op, kernel, shape):
    del op  # kernels of one are verified together
    assert gate_statuses(request, kernel, "heads=qk1_v2", "V=16", *shape.split()) == {"ok"}


def of_library(t, slot, scale, beta_limit):
    """Outputs and fp32 states of the tokens [B, T] from the pool's states, those of slots below zero being slot 0's."""
    found = drafts.computed(
        t | {"slot": slot, "pool": t["pool"].float()},
        scale,
        beta_limit,
        drafts.EACH,
        "padding counts from the end of the pool",
    )
    return found["output"], found["states"]


def fla(
    q, k, v, *, g, beta, A_log, dt_bias, use_gate_in_kernel, use_beta_sigmoid_in_kernel, allow_neg_eigval,
    use_qk_l2norm_in_kernel, scale, initial_state, output_final_state, state_v_first,
):  # fmt: skip
    assert use_gate_in_kernel and use_beta_sigmoid_in_kernel and use_qk_l2norm_in_kernel
    assert output_final_state and state_v_first
    mixed = torch.cat([each.flatten(2) for each in (q, k, v)], -1)
    t = {"mixed_qkv": mixed, "a": g, "b": beta, "A_log": A_log, "dt_bias": dt_bias, "pool": initial_state}
    output, states = of_library(t, torch.arange(len(q)), scale, 2.0 if allow_neg_eigval else 1.0)
    return output, states[:, -1]


def flashinfer(
    q, k, v, *, A_log, a, dt_bias, b, scale, output, use_qk_l2norm, initial_state, initial_state_indices, state=None,
    output_state_indices=None, intermediate_states_buffer=None, disable_state_update=False,
):  # fmt: skip
    """As its documentation has it for bf16: -1 is slot 0, whose state is updated and whose output is undefined."""
    assert state is None
    assert use_qk_l2norm
    mixed = torch.cat([each.flatten(2) for each in (q, k, v)], -1)
    t = {"mixed_qkv": mixed, "a": a, "b": b, "A_log": A_log, "dt_bias": dt_bias, "pool": initial_state}
    found, states = of_library(t, initial_state_indices.clamp(min=0), scale, 1.0)
    output.copy_(found)
    if disable_state_update:
        intermediate_states_buffer.copy_(states)
    else:
        initial_state[output_state_indices.clamp(min=0).long()] = states[:, -1].to(initial_state.dtype)
    return output, initial_state


LIBRARIES = {
    "fla": {"fla.ops.gated_delta_rule": {"fused_recurrent_gated_delta_rule": fla}},
    "flashinfer": {
        "flashinfer.gdn_decode": {
            "gated_delta_rule_decode_pretranspose": flashinfer,
            "gated_delta_rule_mtp": flashinfer,
        }
    },
}


@pytest.mark.parametrize(("op", "scenario"), SCENARIOS)
@pytest.mark.parametrize(("library", "state"), [("fla", 32), ("flashinfer", 32), ("flashinfer", 16)])
def test_a_library_is_called_so_that_it_computes_the_op(monkeypatch, op, scenario, library, state):
    entry = CATALOG.entries[f"{op}-{library}"]
    workload = drawn(op, scenario, STATE=state)[0]
    workspace = Workspace.make(OPS[op], NUMERICS[op], workload, seed=2, device="cpu", scenario=scenario)
    right = consult_oracle(workspace, NUMERICS[op])
    run = load_with(monkeypatch, entry.source, LIBRARIES[library]).bind(workspace.namespace, workload, None)
    assert failures(run, workspace, right, scenario, entry.kernel.in_place) == []
