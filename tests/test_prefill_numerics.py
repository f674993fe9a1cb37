"""Prefill's oracle is the recurrence, and its gates let products of bf16 pass and nothing that is wrong."""

from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from prefill_data import MISTAKES, as_it_is, clipped_rate, computed, naive_rate, prefill_op, rounded

from gdnbench.model.workload import Shape
from gdnbench.verify.gates import roundoff_error

LENGTHS = ((1,), (64,), (65, 0, 130), (3, 129, 1, 63))
SCENARIOS = prefill_op()[0].scenarios


def drawn(lengths, scenario, seed=1, **heads):
    op, numerics = prefill_op()
    return numerics.make_inputs(op.workload(Shape(lengths=lengths, **heads)), seed, "cpu", scenario)


def worst_errors(outputs, tensors, scalars):
    """The largest error of each output, in units of its gate's limit."""
    op, numerics = prefill_op()
    expected, sizes = numerics.oracle(tensors, scalars), numerics.roundoff(tensors, scalars)
    return {
        gate.tensor: float(
            roundoff_error(gate, outputs[gate.tensor], expected[gate.tensor], sizes[gate.tensor]).max() / gate.limit
        )
        for gate in op.gates
    }


def token_after_token(t, scale):
    """The recurrence as the op declares it, in float64."""
    share = t["v"].shape[1] // t["q"].shape[1]
    q, k = (t[name].double().repeat_interleave(share, dim=1) for name in ("q", "k"))
    g = torch.exp(-torch.exp(t["A_log"].double()) * F.softplus(t["a"].double() + t["dt_bias"].double()))
    beta, v, state = torch.sigmoid(t["b"].double()), t["v"].double(), t["state"].double()
    output = torch.empty_like(v)
    for number, (begin, end) in enumerate(pairwise(t["cu_seqlens"].tolist())):
        for token in range(begin, end):
            decayed = g[token][:, None, None] * state[number]
            delta = beta[token][:, None] * (v[token] - torch.einsum("hvk,hk->hv", decayed, k[token]))
            state[number] = decayed + delta[:, :, None] * k[token][:, None, :]
            output[token] = scale * torch.einsum("hvk,hk->hv", state[number], q[token])
    return {"output": output, "new_state": state}


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("lengths", LENGTHS)
def test_the_oracle_in_chunks_is_the_recurrence_token_after_token(lengths, scenario):
    tensors, scalars = drawn(lengths, scenario, HQ=2, HV=4)
    plain, found = token_after_token(tensors, scalars["scale"]), prefill_op()[1].oracle(tensors, scalars)
    for name, expected in plain.items():
        assert torch.equal(found[name].isfinite(), expected.isfinite())
        assert float((found[name] - expected).abs().max()) < 1e-11 * float(expected.abs().max())


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("lengths", LENGTHS)
def test_products_of_bf16_pass_with_room(lengths, scenario):
    tensors, scalars = drawn(lengths, scenario, HQ=2, HV=4)
    worst = worst_errors(computed(tensors, scalars["scale"]), tensors, scalars)
    assert max(worst.values()) < 0.5, worst


@pytest.mark.parametrize(("chunk", "operand"), [(1, as_it_is), (64, rounded)], ids=("recurrent", "chunked"))
@pytest.mark.parametrize("rate_of", [naive_rate, clipped_rate])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_gates_as_libraries_take_them_pass(scenario, rate_of, chunk, operand):
    tensors, scalars = drawn((3, 1, 129), scenario, HQ=2, HV=4)
    outputs = computed(tensors, scalars["scale"], rate=rate_of(tensors), chunk=chunk, operand=operand)
    worst = worst_errors(outputs, tensors, scalars)
    assert max(worst.values()) < 0.5, worst


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_fails_in_some_scenario(mistake):
    found = []
    for scenario in SCENARIOS:
        tensors, scalars = drawn((200, 70, 130), scenario, HQ=1, HV=2)
        found.append(max(worst_errors(computed(tensors, scalars["scale"], mistake), tensors, scalars).values()))
    assert max(found) > 2.0, found
