"""Steps whose states go to other slots than they come from: oracles, what the gates find, kernels without a GPU."""

from itertools import product

import pytest
import test_verify_drafts as drafts
import torch
from library_data import failures_with
from planted import CATALOG, drawn, is_refused, worst
from verified_kernels import gate_statuses

from gdnbench.launch import load_numerics
from gdnbench.model.workload import Shape

OPS = {name: CATALOG.ops[name] for name in ("verify-rollback", "decode-split")}
NUMERICS = {name: load_numerics(op, CATALOG.op_folders[name]) for name, op in OPS.items()}
SCENARIOS = [(name, scenario) for name, op in OPS.items() for scenario in op.scenarios]
SIZES = {"B": 7, **drafts.SIZES}
CALLED, COUNT, VALUES = "pool.write(t.new_pool", "(accepted.long() - 1)", "states.flatten(0, 1).to(pool.dtype)"
WRITE, ROWS = "(t.new_pool, t.slots, states)", "t.read_slot, t.write_slot, states"
NOT_WRITTEN = "(t.read_slot <= 0) | (t.write_slot <= 0)"
OTHERS = {
    "verify-rollback": "t.slots.flatten().tolist()",
    "decode-split": "t.read_slot.tolist() + t.write_slot.tolist()",
}
NOBODYS = {op: f"(set(range(1, len(t.new_pool))) - set({slots})).pop()" for op, slots in OTHERS.items()}
IN_STEP = (
    "keys are not normalised", "values of the next head", "the last state in bf16", "one element a thousandth off",
)  # fmt: skip
"""What kernels of these ops do wrong as those of `verify` may."""
MISTAKES = {
    "verify-rollback": {
        "padding reads by its count": {
            "slots.gather(1, last[:, None])[:, 0]": (
                "slots.flatten()[(torch.arange(len(slots)) * 4 + accepted - 1).clamp(0, slots.numel() - 1)]"
            )
        },
        "padding writes slot 0": {f"torch.where(live, {VALUES}, pool[:1])": VALUES},
        "padding writes what its slots count from the end": {
            "(slots > 0)": "(slots != 0)", "slots.clamp(min=0).flatten().long()": "slots.flatten().long() % len(pool)",
        },
        "the count of the next row": {COUNT: "(accepted.roll(-1).long() - 1)"},
        "counts from 0": {COUNT: "accepted.long()"},
        "rolled back to the last draft": {COUNT: "(0 * accepted.long() + slots.shape[1] - 1)"},
        "rows permuted": {WRITE: "(t.new_pool, t.slots.where(t.slots <= 0, t.slots.roll(1, 0)), states)"},
        "states saved ahead": {WRITE: "(t.new_pool, t.slots, states[:, [1, 2, 3, 3]])"},
        "states saved a token late": {WRITE: "(t.new_pool, t.slots[:, 1:], states[:, :-1])"},
        "the state that was read is written over alone": {WRITE: "(t.new_pool, read[:, None], states[:, -1:])"},
        "all states in the last slot": {WRITE: "(t.new_pool, t.slots[:, -1:].expand_as(t.slots), states)"},
    },
    "decode-split": {
        "padding reads slot 0": drafts.MISTAKES["padding writes its output"],
        "padding writes its slot": {"(read_slot > 0) & (write_slot > 0)": "(write_slot > 0)"},
        "padding writes slot 0": {"where(written[:, None": "where((written | (read_slot <= 0))[:, None"},
        "what is not kept goes to slot 0": {"where(written[:, None": "where((read_slot > 0)[:, None"},
        "what is not kept counts from the end": {
            "(write_slot > 0)": "(write_slot != 0)", "write_slot, 0).long()": "write_slot, 0).long() % len(pool)",
        },
        "the slot that is read is written, too": {
            CALLED: f"pool.write(t.new_pool, t.read_slot, t.read_slot, states[:, 0]); {CALLED}",
        },
        "reads where it writes": {"t.read_slot, t.scale": "t.write_slot, t.scale"},
        "writes where it reads": {ROWS: "t.read_slot, t.read_slot, states"},
        "rows permuted": {
            ROWS: f"t.read_slot, t.write_slot.where({NOT_WRITTEN}, t.write_slot.roll(1)), states"
        },
    },
}  # fmt: skip
"""What kernels get wrong, as texts of the reference and of what it loads; each must fail in some scenario."""
for _op, _mistakes in MISTAKES.items():
    _mistakes["another slot is cleared"] = {CALLED: f"t.new_pool[{NOBODYS[_op]}] = 0.0; {CALLED}"}
    _mistakes |= {each: drafts.MISTAKES[each] for each in IN_STEP}


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


@pytest.mark.parametrize(("op", "scenario"), SCENARIOS)
@pytest.mark.parametrize("state", [32, 16])
def test_the_oracle_is_the_recurrence_and_fp32_passes_by_far(op, scenario, state):
    workspace, found = drawn(op, scenario, STATE=state, **SIZES)
    for name, right in expected(op, workspace.inputs, **workspace.scalars).items():
        torch.testing.assert_close(found.outputs[name], right, rtol=1e-9, atol=1e-12)
    assert worst(op, scenario, STATE=state, **SIZES) < 0.3


@pytest.mark.parametrize(("op", "mistake"), [(op, each) for op, mistakes in MISTAKES.items() for each in mistakes])
def test_a_mistake_fails_in_some_scenario(op, mistake):
    assert is_refused(op, MISTAKES[op][mistake], **SIZES)


@pytest.mark.parametrize(("op", "scenario"), SCENARIOS)
def test_slots_of_nobody_may_not_change_by_a_bit(op, scenario):
    for place in ("0", NOBODYS[op]):
        assert worst(op, scenario, {CALLED: f"t.new_pool[{place}, 1, 2, 3] *= 1 + 2.0**-23; {CALLED}"}, **SIZES) > 1


def inputs(op, scenario, batch=7, seed=1):
    return drawn(op, scenario, seed, **SIZES | {"B": batch})[0].inputs


@pytest.mark.parametrize("seed", range(5))
def test_slots_are_drawn_apart_and_counts_reach_both_ends(seed):
    t = inputs("verify-rollback", "typical", 40, seed)
    slots = t["slots"].flatten().tolist()
    assert len(set(slots)) == 40 * 4
    assert min(slots) >= 1
    assert any(abs(one - other) > 1 for one, other in t["slots"][:, :2].tolist())
    assert set(t["accepted"].tolist()) == {1, 2, 3, 4}
    t = inputs("decode-split", "typical", 40, seed)
    assert len(set(t["read_slot"].tolist() + t["write_slot"].tolist())) == 80


def test_scenarios_draw_what_they_are_named_for():
    for scenario, counts in (("one-accepted", {1}), ("all-accepted", {4}), ("padded", {0, 1, 2, 3, 4, 5})):
        assert set(inputs("verify-rollback", scenario, 40)["accepted"].tolist()) == counts
    padded = inputs("verify-rollback", "padded", 40)
    assert {0, -1} < set(padded["slots"].flatten().tolist())
    assert (padded["accepted"][padded["slots"][:, 0] > 0] >= 1).all()
    read, write = (inputs("decode-split", "in-place")[name] for name in ("read_slot", "write_slot"))
    assert torch.equal(read, write)
    assert len(set(inputs("decode-split", "forked")["read_slot"].tolist())) == 1
    for scenario in OPS["decode-split"].scenarios:
        read, write = (inputs("decode-split", scenario)[name].tolist() for name in ("read_slot", "write_slot"))
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
    """Outputs and fp32 states of the tokens [B, T] from the pool's states."""
    pool = t["pool"][slot.long()]
    t = t | {"pool": torch.cat([pool[:1], pool]), "slot": 1 + torch.arange(len(slot))}
    verify = load_numerics(drafts.OP, CATALOG.op_folders["verify"])
    made = verify.oracle(t, {"scale": scale, "beta_limit": beta_limit}, drafts.OP.workload({"KEEP": drafts.EACH}))
    return made["output"].bfloat16(), made["states"].float()


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
    axes = {"STATE": state, **SIZES}
    assert failures_with(monkeypatch, CATALOG.entries[f"{op}-{library}"], LIBRARIES[library], scenario, axes) == []
