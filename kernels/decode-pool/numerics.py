"""Inputs of the decode step over a pool, its float64 oracle, and the roundoff that fp32 arithmetic may have on them."""

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

EPS = 1e-6  # below the root of a norm
FEWEST_SLOTS, SLOTS_PER_SEQUENCE = 64, 4  # of the pool, as op.py declares its size
WRITTEN = 8  # keys and values that a state holds
SATURATED = 30.0  # sigmoid and softplus are at their limits in fp32
LARGE = 1e3
SMALL = 2.0**-10  # of keys and queries: EPS is then as large as their squares
UNDERFLOW = 2.0**-102  # fp32's smallest normal number in unit roundoffs: what is smaller may be flushed to zero
BF16 = 16  # bits of a state's element
NORM_ROUNDOFFS = 4.0  # of the root, the quotient and the products that a norm takes, beside its sum


def make_inputs(shape: Shape, seed: int, device: str, scenario: str) -> tuple[Tensors, dict[str, float]]:
    """Draws one step's inputs.

    q, k and v ~ N(0, 1); A_log = log U(1, 16); dt_bias is the inverse softplus of U(1e-3, 0.1); a, b ~ N(0, 1). The
    batch's slots are drawn from 1 on without repetition; to their states a few keys and values have been written, and
    all other slots hold other numbers. A pool may have gigabytes, so that it is made on the device, from draws on the
    CPU: a seed means the same numbers everywhere but for roundoff.

    Args:
        shape: the workload.
        seed: of every draw.
        device: a torch device.
        scenario: `typical`; `padded`, every third entry of the batch, the first among them, is none, by a slot of 0
            and of -1 in turn; `saturated-gates`, a and b at ±30; `large-state`, states of about 1e3; `small-keys`,
            queries and keys so small that the norms' epsilon counts; or a profile of `gdnbench.decays`.

    Returns:
        The input tensors and the scalars, by name.
    """
    random = torch.Generator(device="cpu").manual_seed(seed)
    tensors = _draw(shape, random)
    states = _written_states(shape, random, device) * (LARGE if scenario == "large-state" else 1.0)
    if scenario == "saturated-gates":
        for name in ("a", "b"):
            tensors[name] = SATURATED * torch.sign(tensors[name].float()).bfloat16()
    if scenario == "small-keys":
        tensors["mixed_qkv"][:, : 2 * shape.HQ * shape.K] *= SMALL
    tensors["a"] = gate_of_profile(scenario, tensors, random)
    count = max(FEWEST_SLOTS, SLOTS_PER_SEQUENCE * shape.B)
    slot = 1 + torch.randperm(count - 1, generator=random)[: shape.B]
    if scenario == "padded":
        slot[::6], slot[3::6] = 0, -1
    pool = _other_states(shape, count, random, device)
    live = slot > 0
    pool[slot[live].to(device)] = states[live.to(device)].to(pool.dtype)
    tensors |= {"pool": pool, "slot": slot.int()}
    scalars = {"scale": shape.K**-0.5, "beta_limit": float(shape.BETA)}
    return {name: tensor.contiguous().to(device) for name, tensor in tensors.items()}, scalars


def _written_states(shape: Shape, random: torch.Generator, device: str) -> torch.Tensor:
    """States [B, HV, V, K] of values that were written with normalised keys, and decayed since."""
    written = (shape.B, shape.HV, WRITTEN)
    keys = F.normalize(torch.randn(*written, shape.K, generator=random), dim=-1)
    kept = torch.rand(*written, 1, generator=random)
    values = kept * torch.randn(*written, shape.V, generator=random)
    return values.to(device).mT @ keys.to(device)


def _other_states(shape: Shape, count: int, random: torch.Generator, device: str) -> torch.Tensor:
    """A pool [count, HV, V, K] whose slots differ: one draw, rolled and scaled for each."""
    dtype = torch.bfloat16 if shape.STATE == BF16 else torch.float32
    drawn = torch.randn(shape.HV, shape.V, shape.K, generator=random).to(device)
    pool = torch.empty(count, *drawn.shape, dtype=dtype, device=device)
    for place in range(count):
        pool[place] = 0.05 * (1 + place % 7) * drawn.roll(place, dims=1)
    return pool


def oracle(tensors: Tensors, scalars: dict[str, float]) -> Tensors:
    """The outputs in float64, from the inputs as they are."""
    live = tensors["slot"] > 0
    slot = tensors["slot"][live].long()
    pool = tensors["pool"].double()
    output, states = step_of(_live(tensors, live, torch.float64), pool[slot], **scalars)
    pool[slot] = states
    B, HV, V = live.shape[0], *pool.shape[1:3]
    outputs = torch.zeros(B, HV, V, dtype=torch.float64, device=pool.device)
    outputs[live] = output
    return {"output": outputs, "new_pool": pool}


def roundoff(tensors: Tensors, scalars: dict[str, float]) -> Tensors:
    """What the outputs may be off by where all arithmetic is fp32, element by element, in unit roundoffs (2^-24).

    To first order, one roundoff an operation, carried on by the derivatives of what follows (Higham, Accuracy and
    Stability of Numerical Algorithms, 2nd edition, sections 1.6 and 3.1). A sum of n products gets sqrt(n) times the
    sum of their magnitudes, in whatever order it is added up (Higham and Mary, SIAM J. Sci. Comput. 41, 2019, A2815).
    A norm's error is common to all elements of its key or query: half of what its sum of squares has, and those of the
    root and the quotient. It holds for kernels that scale keys and queries first, and for those that scale products.

    What is not touched, and the output of what is no sequence, has none. Each comment says of which value the line has
    the roundoff. Computed in fp32, which is enough for a size.
    """
    live = tensors["slot"] > 0
    slot = tensors["slot"][live].long()
    t, scale, limit = _live(tensors, live, torch.float32), scalars["scale"], scalars["beta_limit"]
    state = tensors["pool"][slot].float()
    terms = math.sqrt(state.shape[-1])
    norm_off = terms / 2 + NORM_ROUNDOFFS  # the reciprocal of a norm, relative
    q, k, v, b = t["q"], t["k"], t["v"], t["b"]
    x, rate = t["a"] + t["dt_bias"], t["A_log"].exp()

    softplus = F.softplus(x)
    off = 1 + softplus + torch.sigmoid(x) * x.abs()  # softplus(x)
    off = rate * (off + softplus * (1 + t["A_log"].abs()))  # exp(A_log) softplus(x)
    g = torch.exp(-rate * softplus)[..., None]
    g_off = g * (1 + rate * softplus + off)[..., None] + UNDERFLOW
    sigmoid = torch.sigmoid(b)[..., None]  # a limit of 1 or 2 is exact
    beta_off = limit * (sigmoid * (1 + (1 - sigmoid) * b.abs()[..., None]) + UNDERFLOW)
    beta = limit * sigmoid

    def along(row: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The decayed state, g S, times a vector [N, HV, K], and its roundoff, both [N, HV, V]."""
        product = torch.einsum("nhvk,nhk->nhv", state, row)
        magnitude = torch.einsum("nhvk,nhk->nhv", state.abs(), row.abs())
        return g * product, g_off * product.abs() + g * ((terms + 1) * magnitude + norm_off * product.abs())

    retrieved, retrieved_off = along(k)
    delta = beta * (v - retrieved)
    delta_off = beta_off * (v - retrieved).abs() + beta * (retrieved_off + v.abs() + retrieved.abs())
    written_off = delta_off + (norm_off + 1) * delta.abs()  # delta times an element of k
    state_off = (g + g_off)[..., None] * state.abs() + (delta.abs() + written_off)[..., None] * k.abs()[..., None, :]

    kept, kept_off = along(q)
    qk, qk_magnitude = (q * k).sum(-1, keepdim=True), (q * k).abs().sum(-1, keepdim=True)
    qk_off = (terms + 2) * qk_magnitude + 2 * norm_off * qk.abs()
    output_off = kept_off + delta_off * qk.abs() + delta.abs() * qk_off + (kept + delta * qk).abs()

    B, HV, V = live.shape[0], *state.shape[1:3]
    pool_off = torch.zeros_like(tensors["pool"], dtype=torch.float32)
    pool_off[slot] = state_off
    outputs_off = torch.zeros(B, HV, V, device=state.device)
    outputs_off[live] = scale * output_off
    return {"output": outputs_off, "new_pool": pool_off}


def step_of(t: Tensors, state: torch.Tensor, scale: float, beta_limit: float) -> tuple[torch.Tensor, torch.Tensor]:
    """The recurrence in the state's dtype; gives output [N, HV, V] and the new states [N, HV, V, K]."""
    g = torch.exp(-torch.exp(t["A_log"]) * F.softplus(t["a"] + t["dt_bias"]))
    state = g[..., None, None] * state
    retrieved = torch.einsum("nhvk,nhk->nhv", state, t["k"])
    delta = beta_limit * torch.sigmoid(t["b"])[..., None] * (t["v"] - retrieved)
    state = state + delta[..., :, None] * t["k"][..., None, :]
    return scale * torch.einsum("nhvk,nhk->nhv", state, t["q"]), state


def _live(tensors: Tensors, live: torch.Tensor, dtype: torch.dtype) -> Tensors:
    """The unpacked tensors of those entries of the batch that are sequences."""
    own = {name: tensors[name][live] for name in ("mixed_qkv", "a", "b")}
    return _split({**tensors, **own}, _sizes(tensors), dtype)


def _sizes(tensors: Tensors) -> tuple[int, int, int, int]:
    """HQ, HV, V and K."""
    HV, V, K = tensors["pool"].shape[1:]
    return (tensors["mixed_qkv"].shape[-1] - HV * V) // (2 * K), HV, V, K


def _split(tensors: Tensors, sizes: tuple[int, int, int, int], dtype: torch.dtype) -> Tensors:
    """Normalised q and k [..., HV, K], v [..., HV, V], and the gates' inputs, in a dtype."""
    HQ, HV, V, K = sizes
    q, k, v = tensors["mixed_qkv"].to(dtype).split((HQ * K, HQ * K, HV * V), dim=-1)
    q, k = (_normalised(each.unflatten(-1, (HQ, K))).repeat_interleave(HV // HQ, dim=-2) for each in (q, k))
    gates = {name: tensors[name].to(dtype) for name in ("a", "b", "A_log", "dt_bias")}
    return {"q": q, "k": k, "v": v.unflatten(-1, (HV, V)), **gates}


def _normalised(rows: torch.Tensor) -> torch.Tensor:
    return rows / torch.sqrt((rows * rows).sum(-1, keepdim=True) + EPS)


def _draw(shape: Shape, random: torch.Generator) -> Tensors:
    """One step's small tensors on the CPU, so that a seed means the same numbers on every device."""
    B, HV = shape.B, shape.HV
    dt = torch.empty(HV).uniform_(1e-3, 0.1, generator=random)
    return {
        "mixed_qkv": torch.randn(B, 2 * shape.HQ * shape.K + HV * shape.V, generator=random).bfloat16(),
        "a": torch.randn(B, HV, generator=random).bfloat16(),
        "b": torch.randn(B, HV, generator=random).bfloat16(),
        "A_log": torch.empty(HV).uniform_(1.0, 16.0, generator=random).log(),
        "dt_bias": dt + torch.log(-torch.expm1(-dt)),
    }


def draw_tokens(shape: Shape, stretch: sequences.Stretch, fixed: Tensors) -> Tensors:
    """The inputs of a sequence's next tokens, [tokens, …]; `fixed` are inputs, of which those of all tokens count."""
    return sequences.packed(stretch.draw(shape, fixed))


def ready(tensors: Tensors, scalars: dict[str, float]) -> Tensors:
    """What `advance` takes, from inputs of tokens with any axes before their own."""
    return sequences.ready(_split(tensors, _sizes(tensors), torch.float64), **scalars)


advance = sequences.advance
