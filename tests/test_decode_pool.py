"""The decode step over a pool: its oracle is the recurrence, slot by slot, and nothing wrong passes its gates."""

import pytest
import test_verify_drafts as drafts
import torch
from planted import CATALOG, drawn, is_refused, worst
from verified_kernels import gate_statuses

from gdnbench.model.workload import Shape

OP = CATALOG.ops["decode-pool"]
SIZES = {"B": 7, **drafts.SIZES}
WRITTEN = "torch.where(live[..., None], updated.to(pool.dtype), states)"
UPDATED = "    output = scale"
OF_SLOTS = {
    "padding writes its output": {"torch.where(live, output, 0.0)": "output"},
    "padding updates slot 0": {WRITTEN: "updated.to(pool.dtype)"},
    "padding counts from the end of the pool": {
        "slot.clamp(min=0)": "(slot % len(pool))",
        WRITTEN: "updated.to(pool.dtype)",
    },
    "the next sequence's slot": {"slot.clamp(min=0)": "slot.roll(1).clamp(min=0)"},
    "another slot is cleared": {
        "    pool.index": "    pool[(set(range(1, len(pool))) - set(slot.tolist())).pop()] = 0.0\n    pool.index"
    },
}
NOT_NORMALISED = {"(normalised(": "((normalised if each is q else torch.Tensor.float)("}
NEXT_HEAD = {"v.unflatten(1, (HV, V))": "v.unflatten(1, (HV, V)).roll(1, 1)"}
MISTAKES = OF_SLOTS | {
    "no epsilon in a norm": {" + EPS": ""},
    "keys are not normalised": NOT_NORMALISED,
    "queries and keys exchanged": {"q, k, v = mixed_qkv": "k, q, v = mixed_qkv"},
    "values of the next head": NEXT_HEAD,
    "key heads in turn": {".repeat_interleave(HV // HQ, dim=1)": ".repeat(1, HV // HQ, 1)"},
    "the last state in bf16": {"updated.to(pool.dtype)": "updated.bfloat16().to(pool.dtype)"},
    "one element a thousandth off": {UPDATED: f"    updated[1, 1, 2, 3] *= 1.001\n{UPDATED}"},
}
CUT_OFF = "(updated.view(torch.int32) & -65536).view(torch.float32)"
MISTAKES_IN_BF16 = OF_SLOTS | {
    "keys are not normalised": NOT_NORMALISED,
    "values of the next head": NEXT_HEAD,
    "the last state rounded towards zero": {"updated.to(pool.dtype)": f"{CUT_OFF}.to(pool.dtype)"},
    "one element a hundredth off": {UPDATED: f"    updated[1, 1, 2, 3] *= 1.01\n{UPDATED}"},
}


def one_by_one(t, scale, beta_limit):
    """The outputs in float64, from those of drafts of one token."""
    token = t | {name: t[name][:, None] for name in ("mixed_qkv", "a", "b")}
    found, slot, pool = drafts.one_by_one(token, scale, beta_limit, drafts.LAST), t["slot"].long(), t["pool"].double()
    pool[slot[slot > 0]] = found["states"][slot > 0, 0]
    return {"output": found["output"][:, 0], "new_pool": pool}


@pytest.mark.parametrize("scenario", OP.scenarios)
@pytest.mark.parametrize(("state", "beta"), [(32, 1), (16, 2)])
def test_the_oracle_is_the_recurrence_and_fp32_passes_by_far(scenario, state, beta):
    workspace, found = drawn("decode-pool", scenario, STATE=state, BETA=beta, **SIZES)
    for name, right in one_by_one(workspace.inputs, **workspace.scalars).items():
        torch.testing.assert_close(found.outputs[name], right, rtol=1e-9, atol=1e-12)
    assert worst("decode-pool", scenario, STATE=state, BETA=beta, **SIZES) < 0.3


@pytest.mark.parametrize(
    ("state", "mistake"), [*((32, each) for each in MISTAKES), *((16, each) for each in MISTAKES_IN_BF16)]
)
def test_a_mistake_fails_in_some_scenario(state, mistake):
    changes = (MISTAKES if state == 32 else MISTAKES_IN_BF16)[mistake]
    assert is_refused("decode-pool", changes, STATE=state, **SIZES)


def test_beta_reaches_2_where_its_limit_is_2():
    assert worst("decode-pool", "saturated-gates", {"beta_limit * torch": "torch"}, BETA=2, **SIZES) > 1


def test_the_pools_bytes_follow_its_element_type():
    wide, narrow = (OP.workload(Shape(B=8, STATE=bits)) for bits in (32, 16))
    assert OP.copy_bytes(wide) == 2 * 4 * 8 * 8 * 128 * 128 == 2 * OP.copy_bytes(narrow)
    assert OP.tensor_bytes(wide) > 1.9 * OP.tensor_bytes(narrow)
    assert (str(wide), str(narrow)) == ("B=8 qk4_v8 fp32", "B=8 qk4_v8 bf16")


def test_all_slots_differ():
    pool = drawn("decode-pool", "typical", **SIZES)[0].inputs["pool"]
    assert len({tuple(each.flatten()[:64].tolist()) for each in pool}) == len(pool)


def test_the_least_that_must_move_are_the_batchs_states_and_not_the_pool():
    workload = OP.workload(Shape(B=8))
    states = 2 * 4 * 8 * 8 * 128 * 128
    assert OP.copy_bytes(workload) == states
    assert states < OP.traffic_bytes(workload) < 1.01 * states
    assert OP.tensor_bytes(workload) > 7 * states


KERNELS = (
    "decode-pool-v1", "decode-pool-v1:MOST_LANES=16:WARPS=8", "decode-pool-v2", "decode-pool-v2:TILE=32:MOST_WARPS=2",
    "decode-pool-floor-copy:EACH=4", "decode-pool-reference",
)  # fmt: skip


@pytest.mark.parametrize("kernel", KERNELS)
def test_kernels_are_right_where_there_is_no_gpu(request, kernel):
    assert gate_statuses(request, kernel, "B=3", "heads=qk1_v2", "V=32") == {"ok"}
