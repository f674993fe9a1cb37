"""Inputs of a step over draft tokens, its float64 oracle, and the roundoff that fp32 arithmetic may have on them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import torch
import torch.nn.functional as F

from gdnbench import sequences
from gdnbench.decays import gate_of_profile

if TYPE_CHECKING:
    from gdnbench import Shape

Tensors = dict[str, torch.Tensor]

EPS = 1e-6  # below the root of a norm
FEWEST_SLOTS, SLOTS_PER_SEQUENCE = 64, 4  # of the pool, as op.py declares its size
EACH = 1  # of KEEP: the state after each token is kept, not after the last alone
WRITTEN = 8  # keys and values that a state holds
SATURATED = 30.0  # sigmoid and softplus are at their limits in fp32
FORGETTING = (0.3, 3.0)  # of -log g, drawn from in between
LARGE = 1e3
SMALL = 2.0**-10  # of keys and queries: EPS is then as large as their squares
UNDERFLOW = 2.0**-102  # fp32's smallest normal number in unit roundoffs: what is smaller may be flushed to zero
BF16 = 16  # bits of a state's element
NORM_ROUNDOFFS = 4.0  # of the root, the quotient and the products that a norm takes, beside its sum


def make_inputs(shape: Shape, seed: int, device: str, scenario: str) -> tuple[Tensors, dict[str, float]]:
    """Draws the inputs of a step.

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
            queries and keys so small that the norms' epsilon counts; `forgetting`, g between exp(-3) and exp(-0.3), so
            that it tells of which token it is; `remembering`, g of 1 but for 1e-12, and keys that are alike; or a
            profile of `gdnbench.decays`.

    Returns:
        The input tensors and the scalars, by name.
    """
    random = torch.Generator(device="cpu").manual_seed(seed)
    tensors, states = draw_step(shape, random, device, scenario)
    count = max(FEWEST_SLOTS, SLOTS_PER_SEQUENCE * shape.B)
    slot = 1 + torch.randperm(count - 1, generator=random)[: shape.B]
    if scenario == "padded":
        slot[::6], slot[3::6] = 0, -1
    pool = other_states(shape, count, random, device)
    live = slot > 0
    pool[slot[live].to(device)] = states[live.to(device)].to(pool.dtype)
    tensors |= {"pool": pool, "slot": slot.int()}
    scalars = {"scale": shape.K**-0.5, "beta_limit": float(shape.BETA)}
    return {name: tensor.contiguous().to(device) for name, tensor in tensors.items()}, scalars


def draw_step(shape: Shape, random: torch.Generator, device: str, scenario: str) -> tuple[Tensors, torch.Tensor]:
    """The small tensors of a scenario, on the CPU, and the states [B, HV, V, K] that the batch begins with."""
    tensors = _draw(shape, random)
    states = _written_states(shape, random, device) * (LARGE if scenario == "large-state" else 1.0)
    if scenario == "saturated-gates":
        for name in ("a", "b"):
            tensors[name] = SATURATED * torch.sign(tensors[name].float()).bfloat16()
    if scenario == "small-keys":
        tensors["mixed_qkv"][..., : 2 * shape.HQ * shape.K] *= SMALL
    if scenario == "forgetting":
        rate = torch.empty(tensors["a"].shape).uniform_(*FORGETTING, generator=random) / tensors["A_log"].exp()
        tensors["a"] = (rate + torch.log(-torch.expm1(-rate)) - tensors["dt_bias"]).bfloat16()
    if scenario == "remembering":
        tensors["a"] = torch.full_like(tensors["a"], -SATURATED)
        keys = tensors["mixed_qkv"][..., shape.HQ * shape.K : 2 * shape.HQ * shape.K]
        keys += 2 * keys[:, :1]
    tensors["a"] = gate_of_profile(scenario, tensors, random)
    return tensors, states


def _written_states(shape: Shape, random: torch.Generator, device: str) -> torch.Tensor:
    """States [B, HV, V, K] of values that were written with normalised keys, and decayed since."""
    written = (shape.B, shape.HV, WRITTEN)
    keys = F.normalize(torch.randn(*written, shape.K, generator=random), dim=-1)
    kept = torch.rand(*written, 1, generator=random)
    values = kept * torch.randn(*written, shape.V, generator=random)
    return values.to(device).mT @ keys.to(device)


def other_states(shape: Shape, count: int, random: torch.Generator, device: str) -> torch.Tensor:
    """A pool [count, HV, V, K] whose slots differ: one draw, rolled and scaled for each."""
    dtype = torch.bfloat16 if shape.STATE == BF16 else torch.float32
    drawn = torch.randn(shape.HV, shape.V, shape.K, generator=random).to(device)
    pool = torch.empty(count, *drawn.shape, dtype=dtype, device=device)
    for place in range(count):
        pool[place] = 0.05 * (1 + place % 7) * drawn.roll(place, dims=1)
    return pool


def oracle(tensors: Tensors, scalars: dict[str, float], workload: Shape) -> Tensors:
    """The outputs in float64, from the inputs as they are."""
    live = tensors["slot"] > 0
    state = tensors["pool"][tensors["slot"][live].long()].double()
    output, states = recurrence(unpacked(tensors, live, torch.float64), state, **scalars)
    return _of_batch(live, output, states, workload)


def _of_batch(live: torch.Tensor, output: torch.Tensor, states: torch.Tensor, workload: Shape) -> Tensors:
    """What is known of the sequences, as outputs of the whole batch: padding is zero, and some states are not kept."""
    states = states if workload.KEEP == EACH else states[:, -1:]
    outputs = {"output": output, "states": states}
    spread = {name: each.new_zeros(len(live), *each.shape[1:]) for name, each in outputs.items()}
    for name, each in outputs.items():
        spread[name][live] = each
    return spread


class Gates(NamedTuple):
    """Decay and write strength of each token [N, T, HV], and their roundoff."""

    g: torch.Tensor
    g_off: torch.Tensor
    beta: torch.Tensor
    beta_off: torch.Tensor


def gates_with_roundoff(t: Tensors, limit: float) -> Gates:
    """As kernels/decode/numerics.py has them: softplus as log(1 + exp(x)) loses a roundoff of 1 however small it is."""
    x, rate = t["a"] + t["dt_bias"], t["A_log"].exp()
    softplus = F.softplus(x)
    off = 1 + softplus + torch.sigmoid(x) * x.abs()  # softplus(x)
    off = rate * (off + softplus * (1 + t["A_log"].abs()))  # exp(A_log) softplus(x)
    g, sigmoid = torch.exp(-rate * softplus), torch.sigmoid(t["b"])  # a limit of 1 or 2 is exact
    g_off = g * (1 + rate * softplus + off) + UNDERFLOW
    beta_off = limit * (sigmoid * (1 + (1 - sigmoid) * t["b"].abs()) + UNDERFLOW)
    return Gates(g, g_off, limit * sigmoid, beta_off)


def roundoff(tensors: Tensors, scalars: dict[str, float], workload: Shape) -> Tensors:
    """What the outputs may be off by where all arithmetic is fp32, element by element, in unit roundoffs (2^-24).

    To first order, one roundoff an operation, carried on by the derivatives of what follows (Higham, Accuracy and
    Stability of Numerical Algorithms, 2nd edition, sections 1.6 and 3.1). A sum of n products gets sqrt(n) times the
    sum of their magnitudes, in whatever order it is added up (Higham and Mary, SIAM J. Sci. Comput. 41, 2019, A2815).
    A norm's error is common to all elements of its key or query: half of what its sum of squares has, and those of the
    root and the quotient.

    From a token to the next a row's error e becomes g e (I - beta k k^T). No longer than it was, for |k| <= 1 and beta
    in [0, 2], so its 2-norm is carried from token to token; of an element it is g (e + beta |e| |k|), by the
    Cauchy-Schwarz inequality.

    Magnitudes are those of the terms that a state is a sum of, g |S| + |delta| |k| and so on from the first token,
    and not of the state: kernels may multiply the first state with the keys of all tokens, and add the terms up later.

    What is no sequence has none. Each comment says of which value the line has the roundoff. Computed in fp32, which
    is enough for a size.
    """
    live = tensors["slot"] > 0
    t = unpacked(tensors, live, torch.float32)
    state = tensors["pool"][tensors["slot"][live].long()].float()
    found = carried_roundoff(t, state, state.abs(), torch.zeros_like(state), **scalars)
    return _of_batch(live, found.output, found.states, workload)


class Roundoff(NamedTuple):
    """Of outputs [N, T, HV, V], of the state after each token, and of what each writes, its delta [N, T, HV, V]."""

    output: torch.Tensor
    states: torch.Tensor
    deltas: torch.Tensor


def carried_roundoff(
    t: Tensors, state: torch.Tensor, magnitude: torch.Tensor, error: torch.Tensor, scale: float, beta_limit: float
) -> Roundoff:
    """As `roundoff`, of sequences alone, from a first state of which the terms' magnitudes and the error are known."""
    gates = gates_with_roundoff(t, beta_limit)
    terms = math.sqrt(state.shape[-1])
    norm_off = terms / 2 + NORM_ROUNDOFFS  # the reciprocal of a norm, relative
    length = error.norm(dim=-1)  # of the rows of the state's error
    outputs_off, states_off, deltas_off = [], [], []
    for token in range(t["q"].shape[1]):
        q, k, v = t["q"][:, token], t["k"][:, token], t["v"][:, token]
        g, g_off, beta, beta_off = (each[:, token, :, None] for each in gates)

        retrieved = g * _times(state, k)
        retrieved_off = g_off * _times(state, k).abs() + norm_off * retrieved.abs()
        retrieved_off += g * (terms + 1) * _times(magnitude, k.abs())
        delta = beta * (v - retrieved)
        delta_off = beta_off * (v - retrieved).abs() + beta * (retrieved_off + v.abs() + retrieved.abs())
        written_off = delta_off + (norm_off + 1) * delta.abs()  # delta times an element of k

        kept = g * _times(state, q)
        kept_off = g_off * _times(state, q).abs() + norm_off * kept.abs() + g * (terms + 1) * _times(magnitude, q.abs())
        qk, qk_magnitude = (q * k).sum(-1, keepdim=True), (q * k).abs().sum(-1, keepdim=True)
        qk_off = (terms + 2) * qk_magnitude + 2 * norm_off * qk.abs()
        output_off = kept_off + delta_off * qk.abs() + delta.abs() * qk_off + (kept + delta * qk).abs() + g * length
        outputs_off.append(scale * output_off)
        deltas_off.append(delta_off + beta * g * length)

        # What this token's own operations add, and what it makes of the errors before.
        own = (g + g_off)[..., None] * magnitude + (delta.abs() + written_off)[..., None] * k.abs()[..., None, :]
        error = g[..., None] * (error + (beta * length)[..., None] * k.abs()[..., None, :]) + own
        length = g * length + own.norm(dim=-1)
        error = torch.minimum(error, length[..., None])
        states_off.append(error)
        state = g[..., None] * state + delta[..., None] * k[..., None, :]
        magnitude = g[..., None] * magnitude + (delta[..., None] * k[..., None, :]).abs()
    return Roundoff(torch.stack(outputs_off, 1), torch.stack(states_off, 1), torch.stack(deltas_off, 1))


def _times(state: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
    """A state [N, HV, V, K] times a vector [N, HV, K], [N, HV, V]."""
    return torch.einsum("nhvk,nhk->nhv", state, row)


def recurrence(t: Tensors, state: torch.Tensor, scale: float, beta_limit: float) -> tuple[torch.Tensor, torch.Tensor]:
    """One token after the other in the state's dtype; gives output [N, T, HV, V] and states [N, T, HV, V, K]."""
    g = torch.exp(-torch.exp(t["A_log"]) * F.softplus(t["a"] + t["dt_bias"]))
    beta, outputs, states = beta_limit * torch.sigmoid(t["b"]), [], []
    for token in range(g.shape[1]):
        q, k, v = t["q"][:, token], t["k"][:, token], t["v"][:, token]
        state = g[:, token, :, None, None] * state
        delta = beta[:, token, :, None] * (v - _times(state, k))
        state = state + delta[..., :, None] * k[..., None, :]
        states.append(state)
        outputs.append(scale * _times(state, q))
    return torch.stack(outputs, 1), torch.stack(states, 1)


def unpacked(tensors: Tensors, live: torch.Tensor, dtype: torch.dtype) -> Tensors:
    """The unpacked tensors of those entries of the batch that are sequences."""
    own = {name: tensors[name][live] for name in ("mixed_qkv", "a", "b")}
    return _split({**tensors, **own}, _sizes(tensors), dtype)


def _sizes(tensors: Tensors) -> tuple[int, int, int, int]:
    """HQ, HV, V and K."""
    HV, V, K = tensors["pool"].shape[1:]
    return (tensors["mixed_qkv"].shape[-1] - HV * V) // (2 * K), HV, V, K


def _split(tensors: Tensors, sizes: tuple[int, int, int, int], dtype: torch.dtype) -> Tensors:
    """Normalised q and k [N, T, HV, K], v [N, T, HV, V], and the gates' inputs, in a dtype."""
    HQ, HV, V, K = sizes
    q, k, v = tensors["mixed_qkv"].to(dtype).split((HQ * K, HQ * K, HV * V), dim=-1)
    q, k = (_normalised(each.unflatten(-1, (HQ, K))).repeat_interleave(HV // HQ, dim=-2) for each in (q, k))
    gates = {name: tensors[name].to(dtype) for name in ("a", "b", "A_log", "dt_bias")}
    return {"q": q, "k": k, "v": v.unflatten(-1, (HV, V)), **gates}


def _normalised(rows: torch.Tensor) -> torch.Tensor:
    return rows / torch.sqrt((rows * rows).sum(-1, keepdim=True) + EPS)


def _draw(shape: Shape, random: torch.Generator) -> Tensors:
    """The small tensors on the CPU, so that a seed means the same numbers on every device."""
    B, tokens, HV = shape.B, shape.T, shape.HV
    dt = torch.empty(HV).uniform_(1e-3, 0.1, generator=random)
    return {
        "mixed_qkv": torch.randn(B, tokens, 2 * shape.HQ * shape.K + HV * shape.V, generator=random).bfloat16(),
        "a": torch.randn(B, tokens, HV, generator=random).bfloat16(),
        "b": torch.randn(B, tokens, HV, generator=random).bfloat16(),
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
