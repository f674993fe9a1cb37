"""Kimi Delta Attention over whole prompts: the oracle is a decode step a token, and no confusion passes."""

from itertools import pairwise

import pytest
import torch
from library_data import failures_with
from planted import CATALOG, drawn, is_refused, worst
from test_kda_decode import BOUNDED, INSIDE_FLA, OF_ONE_FORM, SOFTPLUS, rule
from verified_kernels import gate_statuses

from gdnbench.catalog.select import select_variants
from gdnbench.launch import load_numerics
from gdnbench.launch.interpret import InterpretedCuda
from gdnbench.launch.workspace import Workspace

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
    sizes = {**SIZES, "GATE": gate, "lengths": (3, 0, 0, 70)}
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


@pytest.mark.parametrize("name", [f"kda-prefill-{each}" for each in ("cudnn", "v5", "v6", "v8")])
def test_a_kernel_takes_no_softplus_that_it_would_compute_as_a_bounded_gate(name):
    check = CATALOG.entries[name].kernel.check
    assert not check(OP.workload({"lengths": (64,)}))
    assert "softplus" in check(OP.workload({"GATE": SOFTPLUS, "lengths": (64,)}))
    assert "128" in check(OP.workload({"K": 64, "V": 64, "lengths": (64,)}))


KERNELS = [f"kda-prefill-{each}" for each in ["v1", "v1:WARPS=4:STAGES=2", "triton", "reference"]]
OF_BOUNDED = ["kda-prefill-v5:PLACES=2", "kda-prefill-v6", "kda-prefill-v8", *KERNELS]
CASES = [
    *((each, shape) for shape in ("lengths=3 gate=softplus --quick", "lengths=1 gate=softplus") for each in KERNELS),
    *((f"kda-prefill-{each}", "lengths=260 gate=bounded --quick") for each in ("v5", "v6", "v8")),
    *(("kda-prefill-v6", f"lengths=70 gate=bounded --profile={each}") for each in ("production", "saturated")),
    *((each, "lengths=67+0+3 gate=bounded") for each in OF_BOUNDED),
]


@pytest.mark.parametrize(("kernel", "shape"), CASES)
def test_kernels_are_right_where_there_is_no_gpu(request, kernel, shape):
    assert gate_statuses(request, kernel, "heads=h1", *shape.split()) == {"ok"}


@pytest.mark.parametrize("kernel", ["kda-prefill-v5:MOST_HEADS=16"])
def test_where_heads_leave_a_group_short_no_counter_misleads_the_next_launch(request, kernel):
    assert gate_statuses(request, kernel, "H=17", "lengths=1", "--quick") == {"ok"}


def interpret(lengths, scenario, change, label="kda-prefill-v6", heads=1):
    """Runs a kernel on inputs that are changed before, and holds outputs to half of what its gates allow."""
    [variant] = select_variants(CATALOG, OP.name, label)
    workload = OP.workload({"lengths": lengths, "H": heads})
    workspace = Workspace.make(OP, NUMERICS, workload, seed=3, device="cpu", scenario=scenario)
    change(workspace.inputs)
    assert InterpretedCuda(CATALOG.entries[variant.kernel], variant, workload, "sm_90").run(workspace).findings == ()
    finite = {name: tensor.nan_to_num() for name, tensor in workspace.inputs.items()}
    units, oracle = (find(finite, workspace.scalars) for find in (NUMERICS.roundoff, NUMERICS.oracle))
    for name, right in oracle.items():
        error = (workspace.outputs[name].double() - right).abs() - right.abs() * 2**-9
        assert float((error / (2**-8 * units[name] + 1e-30)).nan_to_num().max()) < 8 / 2, name
    return workspace.outputs


@pytest.mark.parametrize(
    ("nats", "of_one"), [*((each, each) for each in (0.50, 0.54, 2.9, 3.1)), (4.9, 1e-4), (1e-4, 4.9)]
)
def test_states_on_both_sides_of_what_is_forgotten_and_of_what_one_factor_holds(nats, of_one):
    """32 tokens lose 2^-24 at 0.52 nats each, and what fp32 holds as well as bf16, 2^-140, at 3.03."""

    def change(t):
        lost = torch.full_like(t["dt_bias"], nats).index_fill_(1, torch.tensor([77]), of_one)
        t["g"][:] = (lost / (5 - lost)).log() / t["A_log"].exp() - t["dt_bias"]

    interpret((70, 33), "large-state", change)


def test_every_remainder_and_what_is_no_number_stays_in_its_sequence():
    def spoil(t):
        for name in ("q", "k", "v", "g", "b"):
            t[name][sum(range(33, 65)) :] = torch.nan

    found = interpret((*range(33, 65), 5), "typical", spoil)
    assert found["new_state"].isfinite().flatten(1).all(1).tolist() == [True] * 32 + [False]
    assert found["output"].isfinite().flatten(1).all(1).tolist() == [True] * sum(range(33, 65)) + [False] * 5
