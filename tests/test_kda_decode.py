"""Kimi Delta Attention's decode step: the oracle is the rule, and what was confused elsewhere passes no gate."""

import pytest
import torch
import torch.nn.functional as F
from library_data import failures_with
from planted import CATALOG, drawn, is_refused, worst
from verified_kernels import gate_statuses

from gdnbench.launch import load_numerics
from gdnbench.model.workload import Shape

OP = CATALOG.ops["kda-decode"]
NUMERICS = load_numerics(OP, CATALOG.op_folders[OP.name])
SOFTPLUS, BOUNDED = 0, 1
SIZES = {"B": 4, "H": 4, "K": 32, "V": 32}  # K is V, so that a state of the wrong layout fits
KINDS = [*OP.scenarios, *(each.name for each in OP.profiles)]


def rule(t, scalars, gate):
    """The op as its docstring has it, in float64: a sequence and a head after the other."""
    pool, output = t["pool"].double().clone(), torch.zeros(len(t["slot"]), *t["pool"].shape[1:3], dtype=torch.float64)
    H, V, K = pool.shape[1:]
    for n, h in ((n, h) for n in range(len(output)) for h in range(H) if t["slot"][n] > 0):
        token, place = t["mixed_qkv"][n].double(), t["slot"][n]
        q, k = (token[(first + h) * K : (first + h + 1) * K] for first in (0, H))
        q, k = (each / (each.square().sum() + 1e-6).sqrt() for each in (q, k))
        v = token[2 * H * K + h * V : 2 * H * K + (h + 1) * V]
        x, rate = t["g"][n, h].double() + t["dt_bias"][h], t["A_log"][h].double().exp()
        decay = torch.exp(-5 * torch.sigmoid(rate * x) if gate == BOUNDED else -rate * F.softplus(x))
        state = pool[place, h] * decay[None, :]
        beta = scalars["beta_limit"] * torch.sigmoid(t["b"][n, h].double())
        pool[place, h] = state + beta * torch.outer(v - state @ k, k)
        output[n, h] = K**-0.5 * pool[place, h] @ q
    return {"output": output, "new_pool": pool}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("gate", [SOFTPLUS, BOUNDED])
@pytest.mark.parametrize("state", [32, 16])
def test_the_oracle_is_the_rule(kind, gate, state):
    sizes = {**SIZES, "V": 16, "STATE": state, "GATE": gate, "BETA": 2}
    workspace, found = drawn(OP.name, kind, **sizes)
    for name, right in rule(workspace.inputs, workspace.scalars, gate).items():
        torch.testing.assert_close(found.outputs[name], right, rtol=1e-9, atol=1e-12)
    assert worst(OP.name, kind, **sizes) <= 1


BY_SOFTPLUS = "-rate * F.softplus(x)"
BY_BOUND = "lower_bound * torch.sigmoid(rate * x)"
CONFUSED = {
    "clamped": {BY_BOUND: f"({BY_SOFTPLUS}).clamp(min=lower_bound)"},
    "unscaled": {BY_BOUND: "lower_bound * torch.sigmoid(x)"},
    "sigmoid": {BY_SOFTPLUS: "-5 * torch.sigmoid(rate * x)"},
    "exp2": {"torch.exp(nats)": "torch.exp2(nats)"},
    "transposed": {
        "states = pool[place]": "states = pool[place].mT",
        "torch.where(live[..., None], updated.to(pool.dtype), states)": (
            "torch.where(live[..., None], updated.to(pool.dtype), states).mT"
        ),
    },
    "along-values": {"torch.exp(nats)[:, :, None, :]": "torch.exp(nats)[:, :, :, None]"},
    "narrow-beta": {"torch.sigmoid(b.float())": "torch.sigmoid(b)"},
    "narrow-decay": {"torch.exp(nats)": "torch.exp(nats).bfloat16()"},
    "narrow-nats": {"torch.exp(nats)": "torch.exp(nats.bfloat16().float())"},
    "narrow-rate": {"torch.exp(A_log)": "torch.exp(A_log.bfloat16().float())"},
    "grouped-rates": {"torch.exp(A_log)": "torch.exp(A_log)[::2].repeat_interleave(2)"},
    "grouped-bias": {"+ dt_bias": "+ dt_bias[::2].repeat_interleave(2, dim=0)"},
    "bias-by-channel": {"+ dt_bias": "+ dt_bias.view(K, H).T"},
    "next-channel": {"g.float() +": "g.float().roll(1, dims=-1) +"},
    "one-decay": {"torch.exp(nats)": "torch.exp(nats.mean(-1, keepdim=True).expand_as(nats))"},
    "late-decay": {
        "updated = decayed + delta[:, :, :, None] * k[:, :, None, :]": (
            "updated = torch.exp(nats)[:, :, None, :] * (states + delta[:, :, :, None] * k[:, :, None, :])"
        ),
    },
    "early-output": {"(updated * q": "(decayed * q"},
    "no-epsilon": {" + EPS": ""},
    "exchanged": {"q, k, v = mixed_qkv": "k, q, v = mixed_qkv"},
    "live-padding": {"(slot > 0)": "(slot >= 0)"},
}  # fmt: skip
"""Texts of the reference, and what kernels have had in their place: by sglang, vllm, FlashInfer and FLA, or nearly."""
OF_ONE_FORM = {"clamped": BOUNDED, "unscaled": BOUNDED, "sigmoid": SOFTPLUS}


@pytest.mark.parametrize("gate", [SOFTPLUS, BOUNDED])
@pytest.mark.parametrize("state", [32, 16])
@pytest.mark.parametrize("name", CONFUSED)
def test_a_confusion_is_refused(name, state, gate):
    if OF_ONE_FORM.get(name, gate) == gate:
        assert is_refused(OP.name, CONFUSED[name], **SIZES, STATE=state, GATE=gate)


def updated(tensors, pool, slots, **scalars):
    """Runs the op on a pool in place for the sequences of these slots; gives their outputs."""
    named = dict(zip(("q", "k", "v", "g", "b"), tensors, strict=True))
    assert all(each.is_contiguous() for each in tensors)
    t = {"mixed_qkv": torch.cat([named.pop(name).flatten(1) for name in ("q", "k", "v")], 1), **named}
    t |= {name: scalars.pop(name) for name in ("A_log", "dt_bias")}
    t |= {"pool": torch.cat([pool[:1], pool[slots]]), "slot": 1 + torch.arange(len(slots))}
    made = NUMERICS.oracle(t, scalars)
    pool[slots] = made["new_pool"][1:].to(pool.dtype)
    return made["output"]


INSIDE_FLA = ("use_qk_l2norm_in_kernel", "use_gate_in_kernel", "use_beta_sigmoid_in_kernel")
INSIDE_FLASHINFER = ("use_qk_l2norm_in_kernel", "use_gate_in_kernel", "beta_is_logit")
"""What a library works out within the kernel, where it is asked to."""


def fused_recurrent_kda_fwd(
    q, k, v, g, beta, *, A_log, dt_bias, initial_state, scale, ssm_state_indices, allow_neg_eigval, lower_bound, out,
    **flags,
):  # fmt: skip
    """As fla-core 0.6.0 has it: every slot is one of the pool, and dense tensors are taken for granted."""
    assert flags == dict.fromkeys((*INSIDE_FLA, "state_v_first", "inplace_final_state"), True)
    assert ssm_state_indices.dtype == torch.int32
    assert int(ssm_state_indices.min()) >= 0
    assert out.is_contiguous()
    limits = {"scale": scale, "lower_bound": lower_bound or 0.0, "beta_limit": 2.0 if allow_neg_eigval else 1.0}
    tensors, slots = [each[:, 0] for each in (q, k, v, g, beta)], ssm_state_indices.long()
    out[:, 0] = updated(tensors, initial_state, slots, A_log=A_log, dt_bias=dt_bias, **limits)
    return out, initial_state


def recurrent_kda(
    q, k, v, g, beta, *, A_log, dt_bias, scale, initial_state, lower_bound, cu_seqlens, ssm_state_indices, output,
    backend, **flags,
):  # fmt: skip
    """As flashinfer 0.7.2 has it: each token is a sequence; slots below 0 are padding, and get zeros; 0 is live."""
    assert flags == dict.fromkeys(INSIDE_FLASHINFER, True)
    assert backend == "cute-dsl"
    assert cu_seqlens.dtype == ssm_state_indices.dtype == torch.int32
    assert cu_seqlens.tolist() == [*range(q.shape[1] + 1)]
    assert initial_state.dtype == torch.bfloat16
    assert dt_bias.ndim == 1
    assert output.shape == v.shape
    live = ssm_state_indices >= 0
    tensors, slots = [each[0, live] for each in (q, k, v, g, beta)], ssm_state_indices[live].long()
    limits = {"scale": scale, "lower_bound": lower_bound or 0.0, "beta_limit": 1.0}
    output.zero_()
    dt_bias = dt_bias.view(q.shape[2:])
    output[0, live] = updated(tensors, initial_state, slots, A_log=A_log, dt_bias=dt_bias, **limits).bfloat16()
    return output, None


LIBRARIES = {
    "kda-decode-fla": {"fla.ops.kda.fused_recurrent": {"fused_recurrent_kda_fwd": fused_recurrent_kda_fwd}},
    "kda-decode-flashinfer": {"flashinfer.kda": {"recurrent_kda": recurrent_kda}},
}


@pytest.mark.parametrize("scenario", ["typical", "padded"])
@pytest.mark.parametrize("gate", [SOFTPLUS, BOUNDED])
@pytest.mark.parametrize(
    ("name", "state", "beta"), [("kda-decode-fla", 32, 1), ("kda-decode-fla", 16, 2), ("kda-decode-flashinfer", 16, 1)]
)
def test_a_library_is_called_so_that_it_computes_the_op(monkeypatch, name, state, beta, gate, scenario):
    axes = SIZES | {"K": 64, "V": 64, "STATE": state, "GATE": gate, "BETA": beta}
    assert failures_with(monkeypatch, CATALOG.entries[name], LIBRARIES[name], scenario, axes) == []


@pytest.mark.parametrize(
    "unable", [{}, {"STATE": 16, "BETA": 2}, {"STATE": 16, "V": 64}, {"STATE": 16, "K": 96, "V": 96}]
)
def test_flashinfer_says_what_it_cannot_do(unable):
    check = CATALOG.entries["kda-decode-flashinfer"].kernel.check
    assert check(OP.workload(unable)).startswith("FlashInfer's")
    assert not check(OP.workload({"STATE": 16}))


KERNELS = (
    "kda-decode-v1", "kda-decode-v1:MOST_LANES=16:WARPS=8", "kda-decode-v2", "kda-decode-v2:TILE=32:BULK_STORE=1",
    "kda-decode-triton", "kda-decode-floor-copy", "kda-decode-reference", "kda-decode-v3",
    "kda-decode-v3:MOST_ROWS=16:WARPS=8", "kda-decode-v3:TENSOR_CORES=0:MOST_ROWS=16",
)  # fmt: skip


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("gate", ["softplus", "bounded", "softplus state=bf16", "bounded state=bf16 --quick"])
def test_kernels_are_right_where_there_is_no_gpu(request, kernel, gate):
    assert gate_statuses(request, kernel, "B=3 heads=h2 V=32", *f"gate={gate}".split()) == {"ok"}


@pytest.mark.parametrize("heads", [96, 64, 48, 32, 24, 16, 12, 8, 4])
def test_the_suite_of_models_has_all_heads_in_both_types_of_states(heads):
    suite = OP.suite("models").workloads
    assert {(each.B, each.STATE) for each in suite if heads == each.H} == {
        (b, s) for b in (1, 8, 32, 128) for s in (32, 16)
    }


@pytest.mark.parametrize(("batch", "wide", "narrow"), [(1, 4.25e6, 2.15e6), (128, 542e6, 274e6)])
def test_the_least_that_must_move_are_the_batchs_states_and_its_gates(batch, wide, narrow):
    fp32, bf16 = (OP.workload(Shape(B=batch, STATE=bits)) for bits in (32, 16))
    assert OP.copy_bytes(fp32) == 2 * 4 * batch * 32 * 128 * 128 == 2 * OP.copy_bytes(bf16)
    assert OP.traffic_bytes(fp32) == pytest.approx(wide, rel=0.003)
    assert OP.traffic_bytes(bf16) == pytest.approx(narrow, rel=0.003)
