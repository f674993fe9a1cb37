"""Kimi Delta Attention over draft tokens: the oracle is its decode step, token by token, and no confusion passes."""

import pytest
import torch
from library_data import failures_with
from planted import CATALOG, drawn, is_refused, worst
from test_kda_decode import BOUNDED, INSIDE_FLA, INSIDE_FLASHINFER, OF_ONE_FORM, SOFTPLUS, rule
from test_kda_decode import CONFUSED as CONFUSED_IN_DECODE
from verified_kernels import gate_statuses

from gdnbench.launch import load_numerics

OP = CATALOG.ops["kda-verify"]
NUMERICS = load_numerics(OP, CATALOG.op_folders[OP.name])
LAST, EACH, NONE = 0, 1, 2
SIZES = {"B": 4, "T": 3, "H": 2, "K": 32, "V": 16}


def decoded(t, scalars, gate):
    """Outputs and the states after each token, in float64, by as many decode steps; padding is zero."""
    step, outputs, states = {**t, "pool": t["pool"].double()}, [], []
    for token in range(t["g"].shape[1]):
        step |= {name: t[name][:, token] for name in ("mixed_qkv", "g", "b")}
        made = rule(step, scalars, gate)
        step["pool"] = made["new_pool"]
        outputs.append(made["output"])
        states.append(torch.where((t["slot"] > 0)[:, None, None, None], step["pool"][t["slot"].clamp(min=0).long()], 0))
    return torch.stack(outputs, 1), torch.stack(states, 1)


@pytest.mark.parametrize("kind", [*OP.scenarios, *(each.name for each in OP.profiles)])
@pytest.mark.parametrize(("gate", "keep", "state"), [(SOFTPLUS, EACH, 32), (BOUNDED, LAST, 16), (BOUNDED, NONE, 32)])
def test_the_oracle_is_as_many_decode_steps(kind, gate, keep, state):
    sizes = {**SIZES, "STATE": state, "GATE": gate, "KEEP": keep, "BETA": 2}
    workspace, found = drawn(OP.name, kind, **sizes)
    output, states = decoded(workspace.inputs, workspace.scalars, gate)
    torch.testing.assert_close(found.outputs["output"], output, rtol=1e-9, atol=1e-12)
    kept = {LAST: states[:, -1:], EACH: states, NONE: states[:, :0]}[keep]
    torch.testing.assert_close(found.outputs["states"], kept, rtol=1e-9, atol=1e-12)
    assert worst(OP.name, kind, **sizes) <= 1


OF_THE_RULE = (
    "clamped unscaled sigmoid narrow-beta narrow-rate grouped-rates grouped-bias bias-by-channel next-channel "
    "exchanged no-epsilon live-padding"
)
CONFUSED = {name: CONFUSED_IN_DECODE[name] for name in OF_THE_RULE.split()} | {
    "exp2": {"decay = torch.exp(": "decay = torch.exp2("},
    "transposed": {
        "pool[slot.clamp(min=0).long()]": "pool[slot.clamp(min=0).long()].mT",
        "torch.stack(states, 1)": "torch.stack(states, 1).mT",
    },
    "narrow-decay": {"decay[:, t, :, None, :] * state": "decay[:, t, :, None, :].bfloat16() * state"},
    "earlier-gates": {"decay[:, t, :, None, :]": "decay[:, t - 1, :, None, :]"},
    "earlier-beta": {"beta[:, t, :, None]": "beta[:, t - 1, :, None]"},
    "narrow-between": {"state = decayed + delta[..., None] * k[:, t, :, None, :]": (
        "state = (decayed + delta[..., None] * k[:, t, :, None, :]).bfloat16().float()"
    )},
    "early-output": {"(state * q[:, t": "(decayed * q[:, t"},
    "narrow-nats": {"decay = torch.exp(": "decay = torch.Tensor.bfloat16(", "decay[:, t": "decay.float().exp()[:, t"},
    "sums-of-nats": {"decay[:, t, :, None, :] * state": "decay[:, : t + 1].prod(1)[:, :, None, :] * state"},
}  # fmt: skip
"""Texts of the reference, and what kernels over several tokens may have in their place."""


@pytest.mark.parametrize("gate", [SOFTPLUS, BOUNDED])
@pytest.mark.parametrize("state", [32, 16])
@pytest.mark.parametrize("name", CONFUSED)
def test_a_confusion_is_refused(name, state, gate):
    if OF_ONE_FORM.get(name, gate) == gate:
        assert is_refused(OP.name, CONFUSED[name], **SIZES | {"V": 32}, KEEP=EACH, STATE=state, GATE=gate)


def drafted(q, k, v, g, beta, A_log, dt_bias, pool, slots, scale, lower_bound, beta_limit=1.0):
    """Outputs [N, T, H, V] and the state after each token, of the sequences in these slots, of which 0 is one."""
    t = {"mixed_qkv": torch.cat([each.flatten(2) for each in (q, k, v)], -1), "g": g, "b": beta, "A_log": A_log}
    t |= {"dt_bias": dt_bias.view(g.shape[2:]), "pool": torch.cat([pool[:1], pool]), "slot": slots.int() + 1}
    scalars = {"scale": scale, "lower_bound": lower_bound or 0.0, "beta_limit": beta_limit}
    return NUMERICS.oracle(t, scalars, OP.workload({"KEEP": EACH})).values()


def fused_recurrent_kda(
    q, k, v, g, beta, *, A_log, dt_bias, scale, initial_state, allow_neg_eigval, lower_bound, **flags
):
    """As fla-core 0.6.0 has it: a state for each sequence, and that after the last token in fp32."""
    assert flags == dict.fromkeys((*INSIDE_FLA, "state_v_first", "output_final_state"), True)
    gates, slots = (g, beta, A_log, dt_bias), torch.arange(len(q))
    output, states = drafted(q, k, v, *gates, initial_state, slots, scale, lower_bound, 1 + allow_neg_eigval)
    return output.to(v.dtype), states[:, -1].float()


def recurrent_kda(
    q, k, v, g, beta, *, A_log, dt_bias, scale, lower_bound, initial_state_source, initial_state_indices, output,
    backend, disable_state_update=False, cu_seqlens=None, initial_state=None, ssm_state_indices=None,
    num_spec_tokens=None, **flags,
):  # fmt: skip
    """As flashinfer 0.7.2 has it: packed sequences of as many tokens write states to slots, or [B, T] writes none."""
    assert flags == dict.fromkeys(INSIDE_FLASHINFER, True)
    assert backend == "cute-dsl"
    assert all(each.is_contiguous() for each in (q, k, v, g, beta, output))
    assert initial_state_source.dtype == torch.bfloat16
    assert int(initial_state_indices.min()) >= 0
    T = q.shape[1] if disable_state_update else 1 + (num_spec_tokens or 0)
    if not disable_state_update:
        assert num_spec_tokens != 0
        assert cu_seqlens.dtype == ssm_state_indices.dtype == torch.int32
        assert cu_seqlens.tolist() == [*range(0, q.shape[1] + 1, T)]
        assert ssm_state_indices.shape == (len(initial_state_indices), *([T] if T > 1 else []))
    tensors = [each.unflatten(1, (-1, T)).flatten(0, 1) for each in (q, k, v, g, beta)]
    made, states = drafted(*tensors, A_log, dt_bias, initial_state_source, initial_state_indices, scale, lower_bound)
    output.copy_(made.view(output.shape))
    for token in range(0 if disable_state_update else T):
        initial_state[ssm_state_indices.view(-1, T)[:, token].long()] = states[:, token].to(initial_state.dtype)


class KernelOfFla:
    """As fla-core 0.6.0 has it: a state is read by the accepted token's slot, and that after each token is written."""

    def __getitem__(self, grid):
        assert len(grid) == 1
        return self.launch

    def launch(
        self, *, q, k, v, g, beta, A_log, dt_bias, o, h0, ht, ssm_state_indices, num_accepted_tokens, lower_bound,
        scale, N, T, ALLOW_NEG_EIGVAL, **others,
    ):  # fmt: skip
        assert all(each.is_contiguous() for each in (q, k, v, g, beta, o, ssm_state_indices))
        assert [others[f"stride_{name}_state_token"] for name in ("init", "final")] == [h0.stride(0), ht.stride(0)]
        assert {name for name, value in others.items() if value is True} == FLAGS_OF_KERNEL
        indices = ssm_state_indices.flatten()[: N * others["stride_indices_seq"]].view(N, -1).long()
        slots = indices.gather(1, num_accepted_tokens[:, None].long() - 1)[:, 0]
        tensors = (q, k, v, g, beta, A_log, dt_bias, h0, slots)
        output, states = drafted(*tensors, scale, lower_bound, 1 + ALLOW_NEG_EIGVAL)
        o.copy_(output)
        for token in range(T):
            ht[indices[:, token]] = states[:, token].to(ht.dtype)


FLAGS_OF_KERNEL = {
    *("USE_QK_L2NORM_IN_KERNEL", "USE_GATE_IN_KERNEL", "APPLY_BETA_SIGMOID", "STATE_V_FIRST", "INPLACE_FINAL_STATE")
}
LIBRARIES = {
    "kda-verify-fla": {"fla.ops.kda": {"fused_recurrent_kda": fused_recurrent_kda}},
    "kda-verify-fla-pool": {"fla.ops.kda.fused_recurrent": {"fused_recurrent_kda_fwd_kernel": KernelOfFla()}},
    "kda-verify-flashinfer": {"flashinfer.kda": {"recurrent_kda": recurrent_kda}},
}


@pytest.mark.parametrize("scenario", ["typical", "padded"])
@pytest.mark.parametrize(("gate", "tokens"), [(SOFTPLUS, 3), (BOUNDED, 1)])
@pytest.mark.parametrize(
    ("name", "keep", "state", "beta"),
    [
        *(("kda-verify-fla", LAST, *each) for each in ((32, 1), (16, 2))),
        *(("kda-verify-fla-pool", keep, *each) for keep in (LAST, EACH, NONE) for each in ((32, 1), (16, 2))),
        *(("kda-verify-flashinfer", keep, 16, 1) for keep in (LAST, EACH, NONE)),
    ],
)
def test_a_library_is_called_so_that_it_computes_the_op(monkeypatch, name, keep, state, beta, gate, tokens, scenario):
    size = 128 if name == "kda-verify-flashinfer" else SIZES["K"]
    axes = {"T": tokens, "K": size, "V": size, "STATE": state, "GATE": gate, "BETA": beta, "KEEP": keep}
    assert failures_with(monkeypatch, CATALOG.entries[name], LIBRARIES[name], scenario, SIZES | axes) == []


@pytest.mark.parametrize("unable", [{}, {"STATE": 16, "BETA": 2}, {"STATE": 16, "KEEP": NONE, "K": 64, "V": 64}])
def test_flashinfer_says_what_it_cannot_do(unable):
    check = CATALOG.entries["kda-verify-flashinfer"].kernel.check
    assert check(OP.workload(unable)).startswith("FlashInfer's")
    assert not check(OP.workload({"STATE": 16, "KEEP": NONE}))


@pytest.mark.parametrize(("keep", "kept"), [(LAST, 1), (EACH, 4), (NONE, 0)])
def test_the_least_that_must_move_is_each_state_once_and_those_that_are_kept(keep, kept):
    found = OP.workload({"B": 8, "KEEP": keep})
    assert OP.copy_bytes(found) == (1 + kept) * 8 * 32 * 128 * 128 * 4
    assert OP.copy_bytes(found) < OP.traffic_bytes(found) < 1.09 * OP.copy_bytes(found)
    assert OP.named_sizes(found)["kept"] == kept
    assert bool(CATALOG.entries["kda-verify-fla"].kernel.check(found)) is (keep != LAST)


KERNELS = (
    "kda-verify-v1", "kda-verify-v1:MOST_LANES=16:WARPS=8", "kda-verify-triton", "kda-verify-floor-copy:EACH=4",
    "kda-verify-reference", "kda-verify-v2", "kda-verify-v2:TILE=16:MOST_WARPS=2", "kda-verify-v3",
    "kda-verify-v3:MOST_ROWS=16:WARPS=8", "kda-verify-v3:TENSOR_CORES=0:MOST_ROWS=16",
)  # fmt: skip


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(
    "shape",
    ["T=1 keep=last gate=bounded", "T=3 keep=each gate=softplus", "T=4 keep=last state=bf16", "T=3 keep=none --quick"],
)
def test_kernels_are_right_where_there_is_no_gpu(request, kernel, shape):
    assert gate_statuses(request, kernel, "B=2 heads=h2 V=32", *shape.split()) == {"ok"}
