"""Kimi Delta Attention over draft tokens: the oracle is its decode step, token by token, and no confusion passes."""

import pytest
import torch
from library_data import failures, load_with
from test_kda_decode import BOUNDED, CATALOG, SOFTPLUS, failed_gates, rule
from verified_kernels import gate_statuses

from gdnbench.launch import Workspace, load_numerics
from gdnbench.verify.check import consult_oracle

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
    shape = OP.workload({**SIZES, "STATE": state, "GATE": gate, "KEEP": keep, "BETA": 2})
    t, scalars = NUMERICS.make_inputs(shape, 3, "cpu", kind)
    found, (output, states) = NUMERICS.oracle(t, scalars, shape), decoded(t, scalars, gate)
    torch.testing.assert_close(found["output"], output, rtol=1e-9, atol=1e-12)
    kept = {LAST: states[:, -1:], EACH: states, NONE: states[:, :0]}[keep]
    torch.testing.assert_close(found["states"], kept, rtol=1e-9, atol=1e-12)


CONFUSED = {
    "earlier-gates": {"decay[:, t, :, None, :]": "decay[:, t - 1, :, None, :]"},
    "earlier-beta": {"beta[:, t, :, None]": "beta[:, t - 1, :, None]"},
    "narrow-between": {"state = decayed + delta[..., None] * k[:, t, :, None, :]": (
        "state = (decayed + delta[..., None] * k[:, t, :, None, :]).bfloat16().float()"
    )},
    "early-output": {"(state * q[:, t": "(decayed * q[:, t"},
    "narrow-nats": {"decay = torch.exp(": "decay = torch.Tensor.bfloat16(", "decay[:, t": "decay.float().exp()[:, t"},
    "sums-of-nats": {"decay[:, t, :, None, :] * state": "decay[:, : t + 1].prod(1)[:, :, None, :] * state"},
    "grouped-rates": {"torch.exp(A_log)": "torch.exp(A_log)[::2].repeat_interleave(2)"},
    "live-padding": {"(slot > 0)": "(slot >= 0)"},
}  # fmt: skip
"""Texts of the reference, and what kernels over several tokens may have in their place."""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    shape = "B=4 T=3 heads=h2 K=32 V=32 keep=each state=fp32,bf16 gate=softplus,bounded"
    return failed_gates(tmp_path_factory, OP.name, CONFUSED, shape)


@pytest.mark.parametrize("gate", [SOFTPLUS, BOUNDED])
@pytest.mark.parametrize("state", [32, 16])
@pytest.mark.parametrize("name", CONFUSED)
def test_a_confusion_is_refused(found, name, state, gate):
    assert found["reference", state, gate] == set()
    assert any("roundoff" in each for each in found[name, state, gate])


def fused_recurrent_kda(
    q, k, v, g, beta, *, A_log, dt_bias, scale, initial_state, output_final_state, use_qk_l2norm_in_kernel,
    use_gate_in_kernel, use_beta_sigmoid_in_kernel, allow_neg_eigval, lower_bound, state_v_first,
):  # fmt: skip
    """As fla-core 0.6.0 has it: a state for each sequence, and that after the last token in fp32."""
    assert output_final_state
    assert use_qk_l2norm_in_kernel
    assert use_gate_in_kernel
    assert use_beta_sigmoid_in_kernel
    assert state_v_first
    slots = 1 + torch.arange(len(q))
    t = {"mixed_qkv": torch.cat([each.flatten(2) for each in (q, k, v)], -1), "g": g, "b": beta, "A_log": A_log}
    t |= {"dt_bias": dt_bias, "pool": torch.cat([initial_state[:1], initial_state]), "slot": slots}
    scalars = {"scale": scale, "lower_bound": lower_bound or 0.0, "beta_limit": 2.0 if allow_neg_eigval else 1.0}
    output, states = NUMERICS.oracle(t, scalars, OP.workload({"KEEP": LAST})).values()
    return output.to(v.dtype), states[:, 0].float()


def recurrent_kda(
    q, k, v, g, beta, *, A_log, dt_bias, scale, use_qk_l2norm_in_kernel, use_gate_in_kernel, lower_bound,
    initial_state_source, initial_state_indices, output, beta_is_logit, backend, disable_state_update=False,
    cu_seqlens=None, initial_state=None, ssm_state_indices=None, num_spec_tokens=None,
):  # fmt: skip
    """As flashinfer 0.7.2 has it: packed sequences of as many tokens write states to slots, or [B, T] writes none."""
    assert use_qk_l2norm_in_kernel
    assert use_gate_in_kernel
    assert beta_is_logit
    assert backend == "cute-dsl"
    assert initial_state_source.dtype == torch.bfloat16
    assert int(initial_state_indices.min()) >= 0
    T, scalars = q.shape[1], {"scale": scale, "lower_bound": lower_bound or 0.0, "beta_limit": 1.0}
    if not disable_state_update:
        T = 1 + (num_spec_tokens or 0)
        assert num_spec_tokens != 0
        assert cu_seqlens.dtype == ssm_state_indices.dtype == torch.int32
        assert cu_seqlens.tolist() == [*range(0, q.shape[1] + 1, T)]
        assert ssm_state_indices.shape == ((len(cu_seqlens) - 1, T) if T > 1 else (len(cu_seqlens) - 1,))
    slots = initial_state_indices + 1
    t = {"mixed_qkv": torch.cat([each.flatten(2) for each in (q, k, v)], -1).unflatten(1, (-1, T)).flatten(0, 1)}
    t |= {"g": g.unflatten(1, (-1, T)).flatten(0, 1), "b": beta.unflatten(1, (-1, T)).flatten(0, 1), "A_log": A_log}
    t |= {"dt_bias": dt_bias.view(g.shape[2:]), "pool": torch.cat([initial_state_source[:1], initial_state_source])}
    made, states = NUMERICS.oracle(t | {"slot": slots}, scalars, OP.workload({"KEEP": EACH})).values()
    output.copy_(made.view(output.shape))
    if not disable_state_update:
        for token, places in enumerate(ssm_state_indices.view(-1, T).mT.long()):
            initial_state[places] = states[:, token].to(initial_state.dtype)


class RecurrentKernelOfFla:
    """As fla-core 0.6.0 has it: a state is read by the accepted token's slot, and that after each token is written."""

    def __getitem__(self, grid):
        assert len(grid) == 1
        return self.launch

    def launch(
        self, *, q, k, v, g, beta, A_log, dt_bias, o, h0, ht, cu_seqlens, ssm_state_indices, num_accepted_tokens,
        lower_bound, scale, N, T, stride_init_state_token, stride_final_state_token, stride_indices_seq, BV,
        ALLOW_NEG_EIGVAL, **others,
    ):  # fmt: skip
        assert all(each.is_contiguous() for each in (q, k, v, g, beta, o, ssm_state_indices))
        assert cu_seqlens is None
        assert (stride_init_state_token, stride_final_state_token) == (h0.stride(0), ht.stride(0))
        assert all(others[name] for name in ("USE_QK_L2NORM_IN_KERNEL", "USE_GATE_IN_KERNEL", "APPLY_BETA_SIGMOID"))
        assert others["STATE_V_FIRST"]
        assert others["INPLACE_FINAL_STATE"]
        indices = ssm_state_indices.flatten()[: N * stride_indices_seq].view(N, -1).long()
        slots = indices.gather(1, num_accepted_tokens[:, None].long() - 1)[:, 0]
        t = {"mixed_qkv": torch.cat([each.view(N, T, -1) for each in (q, k, v)], -1), "g": g, "b": beta}
        t |= {"A_log": A_log, "dt_bias": dt_bias, "pool": torch.cat([h0[:1], h0]), "slot": slots.int() + 1}
        scalars = {"scale": scale, "lower_bound": lower_bound or 0.0, "beta_limit": 2.0 if ALLOW_NEG_EIGVAL else 1.0}
        output, states = NUMERICS.oracle(t, scalars, OP.workload({"KEEP": EACH})).values()
        o.copy_(output)
        for token in range(T):
            ht[indices[:, token]] = states[:, token].to(ht.dtype)


LIBRARIES = {
    "kda-verify-fla": {"fla.ops.kda": {"fused_recurrent_kda": fused_recurrent_kda}},
    "kda-verify-fla-pool": {"fla.ops.kda.fused_recurrent": {"fused_recurrent_kda_fwd_kernel": RecurrentKernelOfFla()}},
    "kda-verify-flashinfer": {"flashinfer.kda": {"recurrent_kda": recurrent_kda}},
}


def clear(slot, output, states):
    """As the launch that does so."""
    output[slot <= 0] = 0
    states[slot <= 0] = 0


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
    entry = CATALOG.entries[name]
    size = 128 if name == "kda-verify-flashinfer" else SIZES["K"]
    axes = {"T": tokens, "K": size, "V": size, "STATE": state, "GATE": gate, "BETA": beta, "KEEP": keep}
    shape = OP.workload(SIZES | axes)
    assert not entry.kernel.check(shape)
    workspace = Workspace.make(OP.at(shape.axes), NUMERICS, shape, seed=2, device="cpu", scenario=scenario)
    module = load_with(monkeypatch, entry.source, LIBRARIES[name])
    if hasattr(module, "padding"):
        monkeypatch.setattr(module.padding, "clear", clear)
    run = module.bind(workspace.namespace, shape, entry.default.params)
    assert failures(run, workspace, consult_oracle(workspace, NUMERICS), scenario, entry.kernel.in_place) == []


@pytest.mark.parametrize("unable", [{}, {"STATE": 16, "BETA": 2}, {"STATE": 16, "KEEP": NONE, "K": 64, "V": 64}])
def test_flashinfer_says_what_it_cannot_do(unable):
    assert CATALOG.entries["kda-verify-flashinfer"].kernel.check(OP.workload(unable)).startswith("FlashInfer's")


@pytest.mark.parametrize(("keep", "kept"), [(LAST, 1), (EACH, 4), (NONE, 0)])
def test_the_least_that_must_move_is_each_state_once_and_those_that_are_kept(keep, kept):
    found = OP.workload({"B": 8, "KEEP": keep})
    assert OP.copy_bytes(found) == (1 + kept) * 8 * 32 * 128 * 128 * 4
    assert OP.copy_bytes(found) < OP.traffic_bytes(found) < 1.09 * OP.copy_bytes(found)
    assert OP.named_sizes(found)["kept"] == kept
    assert bool(CATALOG.entries["kda-verify-fla"].kernel.check(found)) is (keep != LAST)


KERNELS = (
    "kda-verify-v1", "kda-verify-v1:MOST_LANES=16:WARPS=8", "kda-verify-triton", "kda-verify-floor-copy:EACH=4",
    "kda-verify-reference", "kda-verify-v2", "kda-verify-v2:TILE=16:MOST_WARPS=2",
)  # fmt: skip


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(
    "shape", ["T=1 keep=last gate=bounded", "T=3 keep=each,none gate=softplus", "T=4 keep=last state=bf16"]
)
def test_kernels_are_right_where_there_is_no_gpu(request, kernel, shape):
    assert gate_statuses(request, kernel, "B=2 heads=h2 V=32", *shape.split()) == {"ok"}
