"""The decode step over a pool: its oracle is the recurrence, slot by slot, and nothing wrong passes its gates."""

import pytest
import test_verify_drafts as drafts
import torch
from verified_kernels import gate_statuses

from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.launch.numerics import load_numerics
from gdnbench.model.workload import Shape

CATALOG = load_catalog(default_roots()[:1])
OP = CATALOG.ops["decode-pool"]
NUMERICS = load_numerics(OP, CATALOG.op_folders[OP.name])
OF_SLOTS = (
    "padding writes its output", "padding updates slot 0", "padding counts from the end of the pool",
    "the next sequence's slot", "another slot is cleared",
)  # fmt: skip
MISTAKES = (
    *OF_SLOTS, "no epsilon in a norm", "keys are not normalised", "queries and keys exchanged",
    "values of the next head", "key heads in turn", "the last state in bf16", "one element a thousandth off",
)  # fmt: skip
MISTAKES_IN_BF16 = (
    *OF_SLOTS, "keys are not normalised", "values of the next head", "the last state rounded towards zero",
    "one element a hundredth off",
)  # fmt: skip


def drawn(scenario, batch=7, seed=1, **sizes):
    return NUMERICS.make_inputs(OP.workload(Shape(B=batch, **drafts.SIZES, **sizes)), seed, "cpu", scenario)


def of_one_token(t):
    return t | {name: t[name][:, None] for name in ("mixed_qkv", "a", "b")}


def in_pool(t, output, states, mistake=""):
    """The outputs, from those of drafts of one token."""
    slot, pool = t["slot"].long(), t["pool"].to(states.dtype).clone()
    if mistake == "padding updates slot 0":
        slot = slot.clamp(min=0)
    if mistake == "the next sequence's slot":
        slot = slot.roll(1)
    written = torch.ones_like(slot, dtype=torch.bool) if mistake in OF_SLOTS[1:3] else slot > 0
    pool[slot[written]] = states[written, 0]
    if mistake == "another slot is cleared":
        pool[(set(range(1, len(pool))) - set(slot.tolist())).pop()] = 0.0
    return {"output": output[:, 0], "new_pool": pool}


def one_by_one(t, scale, beta_limit, dtype=torch.float64):
    return in_pool(t, **drafts.one_by_one(of_one_token(t), scale, beta_limit, drafts.LAST, dtype))


def computed(t, scale, beta_limit, mistake=""):
    """The outputs of a kernel in fp32, with a mistake if one is asked for."""
    return in_pool(t, **drafts.computed(of_one_token(t), scale, beta_limit, drafts.LAST, mistake), mistake=mistake)


def worst(outputs, t, scalars):
    return drafts.worst(outputs, NUMERICS.oracle(t, scalars), NUMERICS.roundoff(t, scalars), OP)


@pytest.mark.parametrize("scenario", OP.scenarios)
def test_the_oracle_is_the_recurrence(scenario):
    t, scalars = drawn(scenario)
    expected, found = one_by_one(t, **scalars), NUMERICS.oracle(t, scalars)
    for name, right in expected.items():
        torch.testing.assert_close(found[name], right, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("scenario", OP.scenarios)
@pytest.mark.parametrize("batch", [1, 7])
def test_fp32_passes_by_far(scenario, batch):
    t, scalars = drawn(scenario, batch)
    assert worst(computed(t, **scalars), t, scalars) < 0.3
    alone = one_by_one(t, **scalars, dtype=torch.float32)
    assert worst({"output": alone["output"].bfloat16(), "new_pool": alone["new_pool"]}, t, scalars) < 0.3


@pytest.mark.parametrize(
    ("state", "mistake"), [*((32, each) for each in MISTAKES), *((16, each) for each in MISTAKES_IN_BF16)]
)
def test_a_mistake_fails_in_some_scenario(state, mistake):
    found = []
    for scenario in OP.scenarios:
        t, scalars = drawn(scenario, STATE=state)
        found.append(worst(computed(t, **scalars, mistake=mistake), t, scalars))
    assert max(found) > 1, found


@pytest.mark.parametrize("scenario", OP.scenarios)
def test_a_pool_of_bf16_is_read_as_it_is_and_rounded_once(scenario):
    t, scalars = drawn(scenario, STATE=16, BETA=2)
    assert t["pool"].dtype == torch.bfloat16
    expected, found = one_by_one(t, **scalars), NUMERICS.oracle(t, scalars)
    for name, right in expected.items():
        torch.testing.assert_close(found[name], right, rtol=1e-9, atol=1e-12)
    assert worst(computed(t, **scalars), t, scalars) < 0.3


def test_beta_reaches_2_where_its_limit_is_2():
    t, scalars = drawn("saturated-gates", BETA=2)
    assert scalars["beta_limit"] == 2.0
    right = computed(t, **scalars)
    assert worst(right, t, scalars) < 0.3
    assert worst(computed(t, scalars["scale"], 1.0), t, scalars) > 1


def test_the_pools_bytes_follow_its_element_type():
    wide, narrow = (OP.workload(Shape(B=8, STATE=bits)) for bits in (32, 16))
    assert OP.copy_bytes(wide) == 2 * 4 * 8 * 8 * 128 * 128 == 2 * OP.copy_bytes(narrow)
    assert OP.tensor_bytes(wide) > 1.9 * OP.tensor_bytes(narrow)
    assert (str(wide), str(narrow)) == ("B=8 qk4_v8 fp32", "B=8 qk4_v8 bf16")


def test_slots_are_drawn_without_repetition_and_the_first_is_nobodys():
    for seed in range(5):
        slot = drawn("typical", batch=40, seed=seed)[0]["slot"].tolist()
        assert len(set(slot)) == 40
        assert min(slot) >= 1
    padded = drawn("padded", batch=40)[0]["slot"].tolist()
    assert {0, -1} < set(padded)
    assert sum(each <= 0 for each in padded) == 14


def test_all_slots_differ():
    pool = drawn("typical")[0]["pool"]
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
    assert gate_statuses(request, kernel, "B=3", "heads=qk1_v2") == {"ok"}
