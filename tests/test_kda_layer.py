"""A Kimi Delta Attention layer's decode step: the oracle is the rule, no confusion passes, libraries compute the op."""

import pytest
import torch
import torch.nn.functional as F
from faults import answer
from library_data import failures_with
from planted import CATALOG, drawn, is_refused, worst
from test_kda_decode import BOUNDED, OF_ONE_FORM, SOFTPLUS, fused_recurrent_kda_fwd, rule
from test_kda_decode import CONFUSED as CONFUSED_IN_DECODE
from test_layer_libraries import NormOfFla, update_of_fla
from verified_kernels import gate_statuses
from write_kernels import write_changed

from gdnbench.errors import ShapeError
from gdnbench.launch import load_numerics
from gdnbench.model.workload import Shape

OP = CATALOG.ops["kda-layer"]
NUMERICS = load_numerics(OP, CATALOG.op_folders[OP.name])
SIZES = {"B": 4, "H": 4, "K": 32, "V": 32}


def layer(t, scalars, gate):
    """The op as its docstring has it, in float64, around a decode step."""
    live, slot = t["slot"] > 0, t["slot"].clamp(min=0).long()
    conv_pool, weight = t["conv_pool"].double(), t["conv_weight"].double()
    y = torch.zeros(len(slot), 3, t["conv_weight"].shape[2], dtype=torch.float64)
    for n, part in ((n, part) for n in range(len(slot)) for part in range(3)):
        channels = slice(part * y.shape[2], (part + 1) * y.shape[2])
        c, x = conv_pool[slot[n]][:, channels], t["x"][n, channels].double()
        y[n, part] = F.silu(sum(weight[part, i] * c[i] for i in range(3)) + weight[part, 3] * x)
    for n in live.nonzero().flatten():
        conv_pool[slot[n]] = torch.cat([conv_pool[slot[n]][1:], t["x"][n][None].double()])
    made = rule({**t, "mixed_qkv": y.flatten(1)}, {**scalars, "beta_limit": 1.0}, gate)
    o = made["output"] / (made["output"].square().mean(-1, keepdim=True) + 1e-5).sqrt()
    y = torch.where(live[:, None, None], o * t["weight"] * torch.sigmoid(t["z"].double()), 0)
    return {"y": y, "new_conv_pool": conv_pool, "new_pool": made["new_pool"]}


@pytest.mark.parametrize("kind", [*OP.scenarios, *(each.name for each in OP.profiles)])
@pytest.mark.parametrize(("gate", "state"), [(SOFTPLUS, 32), (BOUNDED, 32), (BOUNDED, 16)])
def test_the_oracle_is_the_rule(kind, gate, state):
    sizes = {**SIZES, "STATE": state, "GATE": gate}
    workspace, found = drawn(OP.name, kind, **sizes)
    for name, right in layer(workspace.inputs, workspace.scalars, gate).items():
        torch.testing.assert_close(found.outputs[name], right, rtol=1e-9, atol=1e-12)
    assert worst(OP.name, kind, **sizes) <= 1


OF_THE_RULE = (
    "exp2 transposed narrow-decay narrow-beta narrow-rate grouped-rates grouped-bias bias-by-channel one-decay "
    "late-decay early-output live-padding"
)
CONFUSED = {name: CONFUSED_IN_DECODE[name] for name in OF_THE_RULE.split()} | {
    "clamped": {"lower_bound * torch.sigmoid(rate * raw)": "(-rate * F.softplus(raw)).clamp(min=lower_bound)"},
    "narrow-state": {"updated.to(pool.dtype)": "updated.to(torch.float8_e5m2).to(pool.dtype)"},
    "epsilon-of-outputs": {"rows).sum(-1, keepdim=True) + EPS": "rows).sum(-1, keepdim=True) + OUTPUT_EPS"},
    "epsilon-of-keys": {"keepdim=True) + OUTPUT_EPS": "keepdim=True) + EPS"},
    "silu-of-outputs": {"torch.sigmoid(z.float())": "F.silu(z.float())"},
    "gate-before-norm": {
        "y = o *": "o = o * torch.sigmoid(z.float()); y = o *",
        " * weight * torch.sigmoid(z.float())": " * weight",
    },
    "one-plus-weight": {" * weight * ": " * (1 + weight) * "},
    "mean-over-heads": {"o.square().mean(-1,": "o.square().mean((1, 2),"},
    "exchanged": {"q, k, v = convolved": "k, q, v = convolved"},
    "no-silu": {"F.silu((inputs": "((inputs"},
    "reversed-taps": {"conv_weight.transpose": "conv_weight.flip(1).transpose"},
    "taps-by-channel": {"conv_weight.transpose": "conv_weight.mT.reshape(3, 4, -1).transpose"},
    "narrow-taps": {"conv_weight.transpose": "conv_weight.bfloat16().float().transpose"},
    "not-shifted": {"inputs[:, 1:], before": "inputs[:, :-1], before"},
    "convolved-kept": {"inputs[:, 1:], before": "torch.cat([before[:, 1:], convolved[:, None]], 1), before"},
}  # fmt: skip
"""Texts of the reference, and what kernels may have in their place."""


@pytest.mark.parametrize("gate", [SOFTPLUS, BOUNDED])
@pytest.mark.parametrize("state", [32, 16])
@pytest.mark.parametrize("name", CONFUSED)
def test_a_confusion_is_refused(name, state, gate):
    if OF_ONE_FORM.get(name, gate) == gate:
        assert is_refused(OP.name, CONFUSED[name], **SIZES, STATE=state, GATE=gate)


def fused_kda_decode(
    *, x, weight, conv_state, raw_gate, raw_beta, A_log, dt_bias, state_indices, state, output_gate, norm_weight,
    lower_bound, norm_eps, output, backend,
):  # fmt: skip
    """As flashinfer 0.7.2 has it: it checks the layouts, and slots of 0 or less give zeros and touch nothing."""
    assert (backend, norm_eps) == ("cute-dsl", 1e-5)
    assert conv_state.shape[1:] == (x.shape[1], 3)
    assert conv_state.stride() == (3 * x.shape[1], 1, x.shape[1])
    assert weight.shape == (3, 4, x.shape[1] // 3)
    assert dt_bias.shape == weight.shape[2:]
    assert raw_gate.shape == output.shape == (1, *output_gate.shape)
    assert output.is_contiguous()
    t = {"x": x, "conv_weight": weight, "conv_pool": conv_state.mT, "g": raw_gate[0], "b": raw_beta[0], "A_log": A_log}
    t |= {"dt_bias": dt_bias.view(raw_gate.shape[2:]), "slot": state_indices, "pool": state, "z": output_gate}
    scalars = {"scale": state.shape[-1] ** -0.5, "lower_bound": lower_bound or 0.0}
    made = NUMERICS.oracle(t | {"weight": norm_weight}, scalars)
    output[0] = made["y"].bfloat16()
    conv_state.mT.copy_(made["new_conv_pool"])
    state.copy_(made["new_pool"])


LIBRARIES = {
    "kda-layer-fla": {
        "fla.modules": {"FusedRMSNormGated": NormOfFla},
        "fla.modules.convolution": {"causal_conv1d_update": update_of_fla},
        "fla.ops.kda.fused_recurrent": {"fused_recurrent_kda_fwd": fused_recurrent_kda_fwd},
    },
    "kda-layer-flashinfer": {"flashinfer.kda_decode": {"fused_kda_decode": fused_kda_decode}},
}


@pytest.mark.parametrize("scenario", ["padded", "small-inputs"])
@pytest.mark.parametrize(("gate", "state"), [(SOFTPLUS, 32), (BOUNDED, 16)])
@pytest.mark.parametrize("name", LIBRARIES)
def test_a_library_is_called_so_that_it_computes_the_op(monkeypatch, name, state, gate, scenario):
    axes = SIZES | {"STATE": state, "GATE": gate}
    assert failures_with(monkeypatch, CATALOG.entries[name], LIBRARIES[name], scenario, axes) == []


def test_kernels_say_what_they_cannot_do():
    with pytest.raises(ShapeError, match="V=128 is not K=64"):
        OP.workload(Shape(K=64))
    flashinfer, ours = (CATALOG.entries[f"kda-layer-{name}"].kernel.check for name in ("flashinfer", "v2"))
    small, odd, few = (OP.workload(each) for each in ({"K": 64, "V": 64}, {"K": 96, "V": 96}, {"H": 16}))
    assert flashinfer(small) == "FlashInfer's heads have 128 elements"
    assert flashinfer(few) == "FlashInfer's layers have 8, 12, 24, 32, 48, 96 heads"
    assert ours(odd) == "heads have 64 or 128 elements, not 96"
    assert [flashinfer(OP.workload({})), ours(OP.workload({})), ours(small)] == ["", "", ""]


FORMS = ("v2", "v2:TENSOR_CORES=0:MOST_BLOCKS=4:WARPS=4", "v2:TENSOR_CORES=1", "floor-copy", "reference")


@pytest.mark.parametrize("kernel", [f"kda-layer-{each}" for each in FORMS])
@pytest.mark.parametrize("gate", ["softplus", "bounded"])
def test_kernels_are_right_where_there_is_no_gpu(request, kernel, gate):
    assert gate_statuses(request, kernel, "B=2 heads=h2 K=64 V=64", "state=fp32,bf16", f"gate={gate}") == {"ok"}


def test_a_layer_that_updates_inputs_before_all_have_read_them_is_found(tmp_path, monkeypatch):
    """kda-layer-v2 whose blocks do not wait for each other's last arrival before they update what all of them read."""
    entry, update = CATALOG.entries["kda-layer-v2"], "  if (has_channels && is_mine) convolution"
    right, wrong = "  // All sums are here", f"{update}.store_shifted(inputs, channel);\n"
    text = (entry.folder / "clusters.cuh").read_text()
    is_mine = next(line for line in text.splitlines(keepends=True) if line.startswith("  const bool is_mine"))
    assert [text.count(each) for each in (right, update)] == [1, 1]
    moved = (right, f"{is_mine}{wrong}{right}")
    write_changed(entry, "kda-layer-early", tmp_path, (f"{is_mine}{wrong}", ""), moved)
    monkeypatch.setenv("GDNBENCH_KERNELS", str(tmp_path))
    done = answer("verify", "kda-layer-early", "--gpu", "cpu", "--shape", "B=2 heads=h2 K=64 V=64")
    assert done.code == 3, done.out + done.err
    assert "no barrier between" in done.out + done.err


@pytest.mark.parametrize(("batch", "state", "megabytes"), [(1, 32, 4.605), (1, 16, 2.507), (128, 32, 562.3)])
def test_the_least_that_must_move_are_the_batchs_states_inputs_and_weights(batch, state, megabytes):
    workload = OP.workload(Shape(B=batch, STATE=state))
    assert OP.copy_bytes(workload) == 2 * batch * (state // 8 * 32 * 128 * 128 + 2 * 3 * 3 * 4096)
    assert OP.traffic_bytes(workload) == pytest.approx(megabytes * 1e6, rel=0.001)
