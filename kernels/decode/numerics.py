"""Inputs of the decode step, its float64 oracle, and the roundoff that fp32 arithmetic may have on the same inputs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

from gdnbench import sequences
from gdnbench.decays import gate_of_profile

if TYPE_CHECKING:
    from gdnbench import Shape

Tensors = dict[str, torch.Tensor]

WARM_UP_STEPS = 8
SATURATED = 30.0  # sigmoid and softplus are at their limits in fp32
LARGE = 1e3
UNDERFLOW = 2.0**-102  # fp32's smallest normal number in unit roundoffs: what is smaller may be flushed to zero


def make_inputs(shape: Shape, seed: int, device: str, scenario: str) -> tuple[Tensors, dict[str, float]]:
    """Draws one decode step's inputs.

    q and k are L2-normalised; v ~ N(0, 1); A_log = log U(1, 16); dt_bias is the inverse softplus of U(1e-3, 0.1);
    a, b ~ N(0, 1); the state has seen a few steps of the recurrence, so that it correlates with keys as in use.

    Args:
        shape: the workload.
        seed: of every draw.
        device: a torch device.
        scenario: `typical`; `saturated-gates`, a and b at ±30; `large-state`, a state of about 1e3;
            `zero-b`, beta exactly one half; or a profile of `gdnbench.decays`.

    Returns:
        The input tensors and the scalars, by name.
    """
    random = torch.Generator(device="cpu").manual_seed(seed)
    tensors = _draw(shape, random)
    state = torch.zeros(shape.B, shape.HV, shape.V, shape.K)
    if scenario == "large-state":
        state = LARGE * torch.randn(state.shape, generator=random)
    else:
        for _ in range(WARM_UP_STEPS):
            step = {**_draw(shape, random), "A_log": tensors["A_log"], "dt_bias": tensors["dt_bias"]}
            _, state = decode_step(step, state, scale=1.0)
    if scenario == "saturated-gates":
        for name in ("a", "b"):
            tensors[name] = SATURATED * torch.sign(tensors[name].float()).bfloat16()
    if scenario == "zero-b":
        tensors["b"] = torch.zeros_like(tensors["b"])
    tensors["a"] = gate_of_profile(scenario, tensors, random)
    tensors["state"] = state
    return {name: tensor.contiguous().to(device) for name, tensor in tensors.items()}, {"scale": shape.K**-0.5}


def oracle(tensors: Tensors, scalars: dict[str, float]) -> Tensors:
    """The outputs in float64, from the inputs as they are (bf16 inputs are exact in float64)."""
    wide = {name: tensor.double() for name, tensor in tensors.items()}
    output, state = decode_step(wide, wide["state"], scalars["scale"])
    return {"output": output, "new_state": state}


def roundoff(tensors: Tensors, scalars: dict[str, float]) -> Tensors:
    """What the outputs may be off by where all arithmetic is fp32, element by element, in unit roundoffs (2^-24).

    To first order, one roundoff an operation, carried on by the derivatives of what follows (Higham, Accuracy and
    Stability of Numerical Algorithms, 2nd edition, sections 1.6 and 3.1). A sum of n products gets sqrt(n) times the
    sum of their magnitudes, in whatever order it is added up (Higham and Mary, SIAM J. Sci. Comput. 41, 2019, A2815).
    It holds for the formula as written, for one that decays after the products (r = g (S k), output = scale * (g S q +
    d q.k)), and for one that takes softplus as log(1 + exp(x)), which loses a roundoff of 1 however small softplus is.

    Each comment says of which value the line has the roundoff. Computed in fp32, which is enough for a size.
    """
    t = {name: tensor.float() for name, tensor in tensors.items()}
    per_head = t["v"].shape[2] // t["q"].shape[2]
    q, k = (t[name][:, 0].repeat_interleave(per_head, dim=1) for name in ("q", "k"))
    v, b, state, scale = t["v"][:, 0], t["b"][:, 0], t["state"], scalars["scale"]
    x, rate, terms = t["a"][:, 0] + t["dt_bias"], t["A_log"].exp(), math.sqrt(state.shape[-1])

    softplus = F.softplus(x)
    off = 1 + softplus + torch.sigmoid(x) * x.abs()  # softplus(x)
    off = rate * (off + softplus * (1 + t["A_log"].abs()))  # exp(A_log) softplus(x)
    g = torch.exp(-rate * softplus)[..., None]
    g_off = g * (1 + rate * softplus + off)[..., None] + UNDERFLOW
    beta = torch.sigmoid(b)[..., None]
    beta_off = beta * (1 + (1 - beta) * b.abs()[..., None]) + UNDERFLOW

    def along(row: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The decayed state, g S, times a vector [B, HV, K], and its roundoff, both [B, HV, V]."""
        product = torch.einsum("bhvk,bhk->bhv", state, row)
        magnitude = torch.einsum("bhvk,bhk->bhv", state.abs(), row.abs())
        return g * product, g_off * product.abs() + terms * g * magnitude

    retrieved, retrieved_off = along(k)
    delta = beta * (v - retrieved)
    delta_off = beta_off * (v - retrieved).abs() + beta * (retrieved_off + v.abs() + retrieved.abs())
    state_off = (g + g_off)[..., None] * state.abs() + (delta.abs() + delta_off)[..., None] * k.abs()[..., None, :]

    kept, kept_off = along(q)
    qk, qk_magnitude = (q * k).sum(-1, keepdim=True), (q * k).abs().sum(-1, keepdim=True)
    output_off = kept_off + delta_off * qk.abs() + terms * delta.abs() * qk_magnitude + (kept + delta * qk).abs()
    return {"output": scale * output_off[:, None], "new_state": state_off}


def decode_step(t: Tensors, state: torch.Tensor, scale: float) -> tuple[torch.Tensor, torch.Tensor]:
    """The recurrence in the state's dtype; gives output [B, 1, HV, V] and the new state [B, HV, V, K]."""
    dtype = state.dtype
    per_head = t["v"].shape[2] // t["q"].shape[2]
    q = t["q"][:, 0].to(dtype).repeat_interleave(per_head, dim=1)
    k = t["k"][:, 0].to(dtype).repeat_interleave(per_head, dim=1)
    v = t["v"][:, 0].to(dtype)
    a, b = t["a"][:, 0].to(dtype), t["b"][:, 0].to(dtype)
    g = torch.exp(-torch.exp(t["A_log"].to(dtype)) * F.softplus(a + t["dt_bias"].to(dtype)))
    beta = torch.sigmoid(b)

    state = g[..., None, None] * state
    retrieved = torch.einsum("bhvk,bhk->bhv", state, k)
    delta = beta[..., None] * (v - retrieved)
    state = state + delta[..., :, None] * k[..., None, :]
    output = scale * torch.einsum("bhvk,bhk->bhv", state, q)
    return output[:, None], state


def _draw(shape: Shape, random: torch.Generator) -> Tensors:
    """One step's small tensors on the CPU, so that a seed means the same numbers on every device."""
    B, HQ, HV, K, V = shape.B, shape.HQ, shape.HV, shape.K, shape.V
    dt = torch.empty(HV).uniform_(1e-3, 0.1, generator=random)
    return {
        "q": F.normalize(torch.randn(B, 1, HQ, K, generator=random), dim=-1).bfloat16(),
        "k": F.normalize(torch.randn(B, 1, HQ, K, generator=random), dim=-1).bfloat16(),
        "v": torch.randn(B, 1, HV, V, generator=random).bfloat16(),
        "A_log": torch.empty(HV).uniform_(1.0, 16.0, generator=random).log(),
        "dt_bias": dt + torch.log(-torch.expm1(-dt)),
        "a": torch.randn(B, 1, HV, generator=random).bfloat16(),
        "b": torch.randn(B, 1, HV, generator=random).bfloat16(),
    }


def draw_tokens(shape: Shape, stretch: sequences.Stretch, fixed: Tensors) -> Tensors:
    """The inputs of a sequence's next tokens, [tokens, …]; `fixed` are inputs, of which those of all tokens count."""
    return sequences.in_bf16(stretch.draw(shape, fixed))


def ready(tensors: Tensors, scalars: dict[str, float]) -> Tensors:
    """What `advance` takes, from inputs of tokens with any axes before their own."""
    return sequences.ready(tensors, **scalars)


advance = sequences.advance
