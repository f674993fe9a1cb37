"""Kimi Delta Attention over whole prompts: the oracle is a decode step a token, and no confusion passes."""

from itertools import pairwise

import pytest
import torch
from library_data import failures_with
from planted import CATALOG, drawn, is_refused, worst
from test_kda_decode import BOUNDED, INSIDE_FLA, OF_ONE_FORM, SOFTPLUS, rule
from verified_kernels import gate_statuses

from gdnbench.launch import load_numerics

OP = CATALOG.ops["kda-prefill"]
NUMERICS = load_numerics(OP, CATALOG.op_folders[OP.name])
SIZES = {"H": 2, "K": 16, "V": 16}


def decoded(t, scalars, gate):
    """Outputs and states in float64, by a decode step a token; a sequence without tokens keeps its state."""
    pool = torch.cat([t["state"][:1], t["state"]]).double()
    mixed, outputs = torch.cat([t[name].flatten(1) for name in ("q", "k", "v")], 1), []
    for sequence, (begin, end) in enumerate(pairwise(t["cu_seqlens"].tolist())):
        for token in range(begin, end):
            step = {"mixed_qkv": mixed[token, None], "g": t["g"][token, None], "b": t["b"][token, None], "pool": pool}
            step |= {name: t[name] for name in ("A_log", "dt_bias")} | {"slot": torch.tensor([sequence + 1])}
            made = rule(step, scalars | {"beta_limit": 1.0}, gate)
            pool = made["new_pool"]
            outputs.append(made["output"])
    return {"output": torch.cat(outputs), "new_state": pool[1:]}


@pytest.mark.parametrize("kind", [*OP.scenarios, *(each.name for each in OP.profiles)])
@pytest.mark.parametrize("gate", [SOFTPLUS, BOUNDED])
def test_the_oracle_is_a_decode_step_a_token(kind, gate):
    sizes = {**SIZES, "GATE": gate, "lengths": (3, 0, 70)}
    workspace, found = drawn(OP.name, kind, **sizes)
    for name, right in decoded(workspace.inputs, workspace.scalars, gate).items():
        torch.testing.assert_close(found.outputs[name], right, rtol=1e-9, atol=1e-12)
    assert worst(OP.name, kind, **sizes) <= 1


CONFUSED = {
    "earlier-gates": {"t.g.float() + t.dt_bias": "t.g.float().roll(1, dims=0) + t.dt_bias"},
    "no-beta": {"beta = laid(torch.sigmoid(t.b.float())[..., None])": "beta = laid(torch.ones_like(t.b)[..., None])"},
    "next-channel": {"t.g.float() + t.dt_bias": "t.g.float().roll(1, dims=-1) + t.dt_bias"},
    "transposed": {"t.state, []": "t.state.mT, []", "bfloat16(), state": "bfloat16(), state.mT"},
    "exp2": {"nats = laid(": "nats = 0.6931472 * laid("},
    "one-decay": {"since = nats.cumsum(-2)": "since = nats.mean(-1, keepdim=True).expand_as(nats).cumsum(-2)"},
    "shifted-chunk": {"to_end = (since[..., -1:, :] - since)": "to_end = (since[..., -1:, :] - since - nats)"},
    "grouped-rates": {"torch.exp(t.A_log)": "torch.exp(t.A_log)[::2].repeat_interleave(2)"},
    "grouped-bias": {"t.g.float() + t.dt_bias": "t.g.float() + t.dt_bias[::2].repeat_interleave(2, dim=0)"},
    "no-epsilon": {" + EPS": ""},
    "state-in-bf16": {"outputs.append(output)": "outputs.append(output); state = state.bfloat16().float()"},
    "clamped": {"lower_bound * torch.sigmoid(rate * x)": "(-rate * F.softplus(x)).clamp(min=lower_bound)"},
    "sigmoid": {"-rate * F.softplus(x)": "-5 * torch.sigmoid(rate * x)"},
}  # fmt: skip
"""Texts of the reference, and what kernels may have in their place."""


@pytest.mark.parametrize("gate", [SOFTPLUS, BOUNDED])
@pytest.mark.parametrize("name", CONFUSED)
def test_a_confusion_is_refused(name, gate):
    if OF_ONE_FORM.get(name, gate) == gate:
        assert is_refused(OP.name, CONFUSED[name], **SIZES, GATE=gate, lengths=(70, 5))


def prefilled(q, k, v, g, b, A_log, dt_bias, state, cu_seqlens, scale, lower_bound):
    """Outputs in the type of v, and states in fp32."""
    t = {"q": q, "k": k, "v": v, "g": g, "b": b, "A_log": A_log, "dt_bias": dt_bias.view(g.shape[1:]), "state": state}
    made = NUMERICS.oracle(t | {"cu_seqlens": cu_seqlens}, {"scale": scale, "lower_bound": lower_bound})
    return made["output"].to(v.dtype), made["new_state"].float()


def chunk_kda(q, k, v, g, beta, *, A_log, dt_bias, scale, initial_state, safe_gate, lower_bound, cu_seqlens, **flags):
    """As fla-core 0.6.0 has it."""
    torch.testing.assert_close(cu_seqlens, flags.pop("cu_seqlens_cpu"))
    assert flags == dict.fromkeys((*INSIDE_FLA, "state_v_first", "output_final_state"), True)
    assert safe_gate == (lower_bound is not None)
    tensors = [each[0] for each in (q, k, v, g, beta)]
    output, state = prefilled(*tensors, A_log, dt_bias, initial_state, cu_seqlens, scale, lower_bound or 0.0)
    return output[None], state


def kimi_delta_attention(
    q, k, v, g, beta, cu_seqlens, *, scale, initial_state, gate_lower_bound, a_log, dt_bias, **flags
):
    """As cudnn-frontend 1.32.0 has it: with `safe_gate` the gate is bounded, by -5 where no bound is given."""
    assert flags == dict.fromkeys((*INSIDE_FLA[::2], "safe_gate", "output_final_state"), True)
    assert cu_seqlens.dtype == torch.int32
    bound = -5.0 if gate_lower_bound is None else gate_lower_bound
    return prefilled(q, k, v, g, beta, a_log, dt_bias, initial_state, cu_seqlens, scale, bound)


LIBRARIES = {
    "kda-prefill-fla": {"fla.ops.kda": {"chunk_kda": chunk_kda}},
    "kda-prefill-cudnn": {"cudnn.linear_attention.ops": {"kimi_delta_attention": kimi_delta_attention}},
}


@pytest.mark.parametrize(("name", "gate"), [("kda-prefill-fla", SOFTPLUS), *((name, BOUNDED) for name in LIBRARIES)])
def test_a_library_is_called_so_that_it_computes_the_op(monkeypatch, name, gate):
    sizes = {"H": 2, "K": 128, "V": 128} if name.endswith("cudnn") else SIZES
    axes = {**sizes, "GATE": gate, "lengths": (65, 0, 3)}
    assert failures_with(monkeypatch, CATALOG.entries[name], LIBRARIES[name], "typical", axes) == []


@pytest.mark.parametrize("name", ["kda-prefill-cudnn", "kda-prefill-v3", "kda-prefill-v4", "kda-prefill-v5"])
def test_a_kernel_takes_no_softplus_that_it_would_compute_as_a_bounded_gate(name):
    check = CATALOG.entries[name].kernel.check
    assert not check(OP.workload({"lengths": (64,)}))
    assert "softplus" in check(OP.workload({"GATE": SOFTPLUS, "lengths": (64,)}))
    assert "128" in check(OP.workload({"K": 64, "V": 64, "lengths": (64,)}))


KERNELS = [f"kda-prefill-{each}" for each in ["v1", "v1:WARPS=4:STAGES=2", "v2", "v2:PLACES=2", "triton", "reference"]]
OF_BOUNDED = ["kda-prefill-v3:PLACES=2", "kda-prefill-v4:PLACES=2:AHEAD=1", "kda-prefill-v5:PLACES=2", *KERNELS]
CASES = [
    *((each, shape) for shape in ("lengths=3 gate=softplus --quick", "lengths=1 gate=softplus") for each in KERNELS),
    *((each, "lengths=260 gate=bounded --quick") for each in ("kda-prefill-v3", "kda-prefill-v4", "kda-prefill-v5")),
    *((each, "lengths=67+0+3 gate=bounded") for each in OF_BOUNDED),
]


@pytest.mark.parametrize(("kernel", "shape"), CASES)
def test_kernels_are_right_where_there_is_no_gpu(request, kernel, shape):
    assert gate_statuses(request, kernel, "heads=h1", *shape.split()) == {"ok"}


@pytest.mark.parametrize("kernel", [f"kda-prefill-{each}:MOST_HEADS=16" for each in ("v2", "v3", "v4", "v5")])
def test_where_heads_leave_a_group_short_v2_leaves_a_counter_that_misleads_its_next_launch(request, kernel):
    found = gate_statuses(request, kernel, "H=17", "lengths=1", "--quick")
    assert found == ({"unsafe"} if "v2" in kernel else {"ok"})
