"""Prefill of other libraries, each with the library's function replaced by its mathematics: is it called rightly?"""

from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch
from bundled import CATALOG
from library_data import failures, load_as_module, load_with
from torch.nn.functional import softplus

from gdnbench.launch import Workspace, load_numerics
from gdnbench.model.declaration import Params
from gdnbench.verify.check import consult_oracle

PREFILL = CATALOG.ops["prefill"]
NUMERICS = load_numerics(PREFILL, CATALOG.op_folders["prefill"])
GATES = CATALOG.op_folders["prefill"] / "gates.py"


def prefill_at(*lengths):
    """K and V differ, so that a state of the wrong layout does not fit."""
    return PREFILL.workloads.workload({"HQ": 2, "HV": 4, "K": 32, "V": 16, "lengths": lengths})


WITH_EMPTY, WITHOUT_EMPTY = prefill_at(65, 0, 1), prefill_at(3, 1, 66)


def prefill(q, k, v, log_decay, beta, state, cu_seqlens, scale):
    """Token after token in fp32, states [N, HV, V, K]; log_decay and beta [T, HV]."""
    share = v.shape[1] // q.shape[1]
    q, k = (tensor.float().repeat_interleave(share, dim=1) for tensor in (q, k))
    output, states = torch.empty_like(v), state.clone()
    for number, (begin, end) in enumerate(pairwise(cu_seqlens.tolist())):
        for token in range(begin, end):
            kept = log_decay[token].exp()[:, None, None] * states[number]
            delta = beta[token, :, None] * (v[token].float() - (kept * k[token, :, None]).sum(-1))
            states[number] = kept + delta[..., None] * k[token, :, None]
            output[token] = scale * (states[number] * q[token, :, None]).sum(-1)
    return output, states


def log_decay_of(a, A_log, dt_bias):
    return -torch.exp(A_log) * softplus(a.float() + dt_bias)


def fla_chunk_indices(cu_seqlens, chunk_size, cu_seqlens_cpu):
    assert cu_seqlens.tolist() == cu_seqlens_cpu.tolist()
    chunks = [-(-(end - begin) // chunk_size) for begin, end in pairwise(cu_seqlens_cpu.tolist())]
    return torch.tensor([(n, chunk) for n, count in enumerate(chunks) for chunk in range(count)])


def fla(
    q, k, v, g, beta, scale, initial_state, output_final_state, state_v_first, cu_seqlens, A_log=None, dt_bias=None,
    use_gate_in_kernel=False, use_beta_sigmoid_in_kernel=False, chunk_indices=None,
):  # fmt: skip
    assert output_final_state
    assert state_v_first
    assert len(q) == len(k) == len(v) == len(g) == len(beta) == 1
    if chunk_indices is not None:
        assert chunk_indices.tolist() == fla_chunk_indices(cu_seqlens, 64, cu_seqlens).tolist()
    log_decay = log_decay_of(g[0], A_log, dt_bias) if use_gate_in_kernel else g[0]
    beta = torch.sigmoid(beta[0].float()) if use_beta_sigmoid_in_kernel else beta[0]
    assert log_decay.dtype == beta.dtype == torch.float32
    output, state = prefill(q[0], k[0], v[0], log_decay, beta, initial_state, cu_seqlens, scale)
    return output[None], state


def flashinfer(
    q, k, v, g, beta, scale, initial_state, output_final_state, cu_seqlens, use_qk_l2norm_in_kernel, output,
    output_state, max_seqlen, use_cp="auto",
):  # fmt: skip
    assert use_cp is False or use_cp == "auto"
    assert output_final_state
    assert not use_qk_l2norm_in_kernel
    assert g.dtype == beta.dtype == torch.float32
    assert max_seqlen == cu_seqlens.diff().max()
    found, state = prefill(q, k, v, g.log(), beta, initial_state, cu_seqlens, scale)
    return output.copy_(found), output_state.copy_(state)


def flash_qla(
    q, k, v, g, beta, scale, initial_state, output_final_state, state_v_first, cu_seqlens, cp_context
):  # fmt: skip
    assert cp_context.cu_seqlens is cu_seqlens
    assert cp_context.num_v_heads == v.shape[2]
    assert cu_seqlens.prepared_from == cp_context.intra_cp_cu_seqlens.prepared_from == cu_seqlens.tolist()
    return fla(q, k, v, g, beta, scale, initial_state, output_final_state, state_v_first, cu_seqlens)


def flash_qla_metadata(cu_seqlens, cu_seqlens_cpu):
    cu_seqlens.prepared_from = cu_seqlens_cpu.tolist()
    return cu_seqlens


def flash_qla_context(cu_seqlens, *, enable_intra, num_v_heads, chunk_size):
    assert enable_intra
    assert chunk_size == 64
    return SimpleNamespace(
        cu_seqlens=cu_seqlens, is_intra=True, intra_cp_cu_seqlens=cu_seqlens.clone(), num_v_heads=num_v_heads
    )


FLA_UTILS = {"prepare_chunk_indices": fla_chunk_indices, "prepare_chunk_offsets": lambda cu_seqlens, chunk_size: None}
LIBRARIES = {
    "prefill-fla": {"fla.ops.gated_delta_rule": {"chunk_gated_delta_rule": fla}, "fla.ops.utils": FLA_UTILS},
    "prefill-fla-recurrent": {"fla.ops.gated_delta_rule": {"fused_recurrent_gated_delta_rule": fla}},
    "prefill-flashinfer": {"flashinfer.gdn_prefill": {"chunk_gated_delta_rule": flashinfer}},
    "prefill-flashinfer-cp": {"flashinfer.gdn_prefill": {"chunk_gated_delta_rule": flashinfer}},
    "prefill-flashqla": {
        "flash_qla": {"chunk_gated_delta_rule": flash_qla},
        "flash_qla.ops.gated_delta_rule.chunk": {"CHUNK_SIZE": 64, "build_cp_context": flash_qla_context},
        "flash_qla.utils.index": {"prepare_varlen_metadata": flash_qla_metadata},
    },
}
CALLS = (
    ("prefill-fla", {"GATES": "own"}, WITH_EMPTY),
    ("prefill-fla", {"GATES": "ours"}, WITH_EMPTY),
    ("prefill-fla-recurrent", {}, WITH_EMPTY),
    ("prefill-flashinfer", {}, WITHOUT_EMPTY),
    ("prefill-flashinfer-cp", {"CP": "off"}, WITHOUT_EMPTY),
    ("prefill-flashqla", {}, WITHOUT_EMPTY),
)


def gates_in_torch(t, *, is_log):
    log_decay, beta = torch.full_like(t.a, torch.nan, dtype=torch.float32), torch.empty_like(t.b, dtype=torch.float32)

    def run():
        rate = log_decay_of(t.a, t.A_log, t.dt_bias)
        log_decay.copy_(rate if is_log else rate.exp())
        beta.copy_(torch.sigmoid(t.b.float()))

    return run, log_decay, beta


def load(monkeypatch, name):
    for variable in ("FLA_FLASH_QLA", "FLA_TENSOR_CACHE_SIZE"):
        monkeypatch.setenv(variable, "to be forgotten")
    module = load_with(monkeypatch, CATALOG.entries[name].source, LIBRARIES[name])
    if hasattr(module, "gates"):
        monkeypatch.setattr(module.gates, "bind_gates", gates_in_torch)
    return module


@pytest.mark.parametrize("scenario", PREFILL.scenarios)
@pytest.mark.parametrize(("name", "params", "workload"), CALLS)
def test_the_library_is_called_so_that_it_computes_the_op(monkeypatch, name, params, workload, scenario):
    workspace = Workspace.make(PREFILL, NUMERICS, workload, seed=2, device="cpu", scenario=scenario)
    expected = consult_oracle(workspace, NUMERICS)
    run = load(monkeypatch, name).bind(workspace.namespace, workload, Params(params))
    assert failures(run, workspace, expected, scenario, {}) == []


@pytest.mark.parametrize("name", ["prefill-flashinfer", "prefill-flashinfer-cp", "prefill-flashqla"])
def test_a_library_that_takes_no_empty_sequence_is_not_given_one(monkeypatch, name):
    workspace = Workspace.make(PREFILL, NUMERICS, WITH_EMPTY, seed=2, device="cpu", scenario="typical")
    with pytest.raises(ValueError, match="empty sequence"):
        load(monkeypatch, name).bind(workspace.namespace, WITH_EMPTY, Params({"CP": "off"}))


def test_fla_is_kept_from_handing_the_call_over_to_flash_qla(monkeypatch):
    backends = pytest.importorskip("fla.ops.gated_delta_rule.backends")
    monkeypatch.setenv("FLA_FLASH_QLA", "1")
    assert backends.FlashQLABackend().is_enabled()
    load(monkeypatch, "prefill-fla")
    assert not backends.FlashQLABackend().is_enabled()


@pytest.mark.parametrize(("is_log", "a"), [(False, 0.0), (True, 0.0), (True, -12.0), (False, 30.0)])
def test_the_gates_are_precise_however_small_softplus_is(monkeypatch, is_log, a):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    workload = prefill_at(300)  # more gates than a program takes, and no multiple of that
    tensors, _ = NUMERICS.make_inputs(workload, 5, "cpu", "typical")
    t = SimpleNamespace(**tensors)
    t.a += a
    run, decay, beta = load_as_module(GATES).bind_gates(t, is_log=is_log)
    decay.fill_(torch.nan)
    beta.fill_(torch.nan)
    run()
    expected = -torch.exp(t.A_log.double()) * softplus(t.a.double() + t.dt_bias)
    torch.testing.assert_close(decay.double(), expected if is_log else expected.exp(), rtol=2e-6, atol=1e-30)
    torch.testing.assert_close(beta.double(), torch.sigmoid(t.b.double()), rtol=1e-6, atol=0)
