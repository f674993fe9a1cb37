"""The delta rule's family: the recurrence in float64, and what roundoff fp32 arithmetic may have on the same inputs.

Ops' `numerics.py` import this module, so that they share the mathematics. It imports only torch. Per head, for one
token after the other, S [V, K], with a decay g of one number a head (Gated Delta Net) or one a channel of the key (Kimi
Delta Attention):

    S = g S;  r = S k;  S = S + beta (v - r) k^T;  output = scale S q        beta = beta_limit sigmoid(b)

    g = exp(-exp(A_log) softplus(a + dt_bias))                  where lower_bound is 0: there is none
    g = exp(lower_bound sigmoid(exp(A_log) (a + dt_bias)))      where it is less

Sizes: N sequences, T tokens, HV heads, V values, K channels, and G numbers of a decay, 1 or K.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

EPS = 1e-6  # below the root of a norm
NORM_ROUNDOFFS = 4.0  # of the root, the quotient and the products that a norm takes, beside its sum
UNDERFLOW = 2.0**-102  # fp32's smallest normal number in unit roundoffs: what is smaller may be flushed to zero
WRITTEN = 8  # keys and values that a drawn state holds


class Tokens(NamedTuple):
    """What tokens bring, unpacked."""

    q: Tensor  # [N, T, HV, K]
    k: Tensor  # [N, T, HV, K]
    v: Tensor  # [N, T, HV, V]
    x: Tensor  # the gate's input and its bias, a + dt_bias, [N, T, HV, G]
    A_log: Tensor  # [HV]
    b: Tensor  # [N, T, HV]


class Gates(NamedTuple):
    """Decay [N, T, HV, G] and write strength [N, T, HV, 1] of each token, and their roundoff."""

    g: Tensor
    g_off: Tensor
    beta: Tensor
    beta_off: Tensor


def unpacked(mixed_qkv: Tensor, sizes: tuple[int, int, int, int]) -> tuple[Tensor, Tensor, Tensor]:
    """Normalised q and k [..., HV, K], and v [..., HV, V], from [..., 2 HQ K + HV V]; sizes are HQ, HV, V and K."""
    HQ, HV, V, K = sizes
    q, k, v = torch.split(mixed_qkv, [HQ * K, HQ * K, HV * V], dim=-1)
    rows = mixed_qkv.shape[:-1]
    q, k = (normalised(each.reshape(*rows, HQ, K)).repeat_interleave(HV // HQ, dim=-2) for each in (q, k))
    return q, k, v.reshape(*rows, HV, V)


def normalised(rows: Tensor) -> Tensor:
    """Rows divided by their norms."""
    return rows / torch.sqrt((rows * rows).sum(-1, keepdim=True) + EPS)


def decay(x: Tensor, A_log: Tensor, lower_bound: float = 0.0) -> Tensor:
    """The decay g of each head, or of each channel, [..., HV, G], in x's dtype."""
    return log_decay(x, A_log, lower_bound).exp()


def log_decay(x: Tensor, A_log: Tensor, lower_bound: float = 0.0) -> Tensor:
    """Its logarithm, at most 0."""
    rate = torch.exp(A_log)[:, None]
    return -rate * F.softplus(x) if lower_bound == 0.0 else lower_bound * torch.sigmoid(rate * x)


def recurrence(
    t: Tokens, state: Tensor, scale: float, beta_limit: float, lower_bound: float = 0.0
) -> tuple[Tensor, Tensor]:
    """One token after the other in the state's dtype; gives output [N, T, HV, V] and states [N, T, HV, V, K]."""
    g, beta = decay(t.x, t.A_log, lower_bound), beta_limit * torch.sigmoid(t.b)
    outputs, states = [], []
    for token in range(g.shape[1]):
        q, k, v = t.q[:, token], t.k[:, token], t.v[:, token]
        state = g[:, token, :, None, :] * state
        delta = beta[:, token, :, None] * (v - _times(state, k))
        state = state + delta[..., :, None] * k[..., None, :]
        states.append(state)
        outputs.append(scale * _times(state, q))
    return torch.stack(outputs, 1), torch.stack(states, 1)


def roundoff(
    t: Tokens, state: Tensor, scale: float, beta_limit: float, lower_bound: float = 0.0, norms: bool = True
) -> tuple[Tensor, Tensor]:
    """What `recurrence` may be off by where all arithmetic is fp32, element by element, in unit roundoffs (2^-24).

    To first order, one roundoff an operation, carried on by the derivatives of what follows (Higham, Accuracy and
    Stability of Numerical Algorithms, 2nd edition, sections 1.6 and 3.1). A sum of n products gets sqrt(n) times the
    sum of their magnitudes, in whatever order it is added up (Higham and Mary, SIAM J. Sci. Comput. 41, 2019, A2815).
    A norm's error is common to all elements of its key or query: half of what its sum of squares has, and those of the
    root and the quotient. It holds for kernels that scale keys and queries first, and for those that scale products.

    From a token to the next a row's error e becomes g e (I - beta k k^T). No longer than the largest g times what it
    was, for |k| <= 1 and beta in [0, 2], so its 2-norm is carried from token to token; of an element it is
    g e + beta |g e| |k|, by the Cauchy-Schwarz inequality.

    Magnitudes are those of the terms that a state is a sum of, g |S| + |delta| |k| and so on from the first token,
    and not of the state: kernels may multiply the first state with the keys of all tokens, and add the terms up later.

    `t` is of the tokens, and `state` [N, HV, V, K] before the first of them, in fp32, which is enough for a size. A log
    decay has no `lower_bound` if that is 0. `norms`: whether kernels normalise queries and keys, or are given them so.
    """
    gates = gates_of(t, beta_limit, lower_bound)
    terms, norm = math.sqrt(state.shape[-1]), float(norms)
    norm_off = norm * (terms / 2 + NORM_ROUNDOFFS)  # the reciprocal of a norm, relative
    magnitude = state.abs()  # of the terms of the state
    error, length = torch.zeros_like(state), torch.zeros_like(state[..., 0])  # of the state: its elements, its rows
    outputs_off, states_off = [], []
    for token in range(t.q.shape[1]):
        q, k, v = t.q[:, token], t.k[:, token], t.v[:, token]
        g, g_off, beta, beta_off = (each[:, token] for each in gates)
        length = g.amax(-1, keepdim=True) * length

        retrieved, retrieved_off = decayed_times(state, magnitude, k, g, g_off, terms + norm, norm_off)
        delta = beta * (v - retrieved)
        delta_off = beta_off * (v - retrieved).abs() + beta * (retrieved_off + v.abs() + retrieved.abs())
        written_off = delta_off + (norm_off + norm) * delta.abs()  # delta times an element of k

        kept, kept_off = decayed_times(state, magnitude, q, g, g_off, terms + norm, norm_off)
        qk, qk_magnitude = (q * k).sum(-1, keepdim=True), (q * k).abs().sum(-1, keepdim=True)
        qk_off = (terms + 2 * norm) * qk_magnitude + 2 * norm_off * qk.abs()
        output_off = kept_off + delta_off * qk.abs() + delta.abs() * qk_off + (kept + delta * qk).abs() + length
        outputs_off.append(scale * output_off)

        # What this token's own operations add, and what it makes of the errors before.
        own = (g + g_off)[..., None, :] * magnitude + (delta.abs() + written_off)[..., None] * k.abs()[..., None, :]
        error = g[..., None, :] * error + (beta * length)[..., None] * k.abs()[..., None, :] + own
        length = length + own.norm(dim=-1)
        error = torch.minimum(error, length[..., None])
        states_off.append(error)
        state = g[..., None, :] * state + delta[..., None] * k[..., None, :]
        magnitude = g[..., None, :] * magnitude + (delta[..., None] * k[..., None, :]).abs()
    return torch.stack(outputs_off, 1), torch.stack(states_off, 1)


def decayed_times(
    state: Tensor, magnitude: Tensor, row: Tensor, g: Tensor, g_off: Tensor, terms: float, norm_off: float
) -> tuple[Tensor, Tensor]:
    """The decayed state, g S, times a vector [N, HV, K], and its roundoff, both [N, HV, V].

    One decay a head stands before the sum, as kernels of Gated Delta Net have it, and its error is common to all terms.
    """
    if g.shape[-1] == 1:
        product, size = _times(state, row), _times(magnitude, row.abs())
        return g * product, g_off * product.abs() + g * (terms * size + norm_off * product.abs())
    product, size = _times(state, g * row), _times(magnitude, g * row.abs())
    return product, _times(magnitude, g_off * row.abs()) + (terms + 1) * size + norm_off * product.abs()


def _times(state: Tensor, row: Tensor) -> Tensor:
    """A state [N, HV, V, K] times a vector [N, HV, K], [N, HV, V]."""
    return torch.einsum("nhvk,nhk->nhv", state, row)


def gates_of(t: Tokens, beta_limit: float, lower_bound: float) -> Gates:
    """Of tokens; each comment says of which value the line has the roundoff, in units of 2^-24.

    softplus as log(1 + exp(x)) loses a roundoff of 1 however small it is. The form with a bound takes a sigmoid as it
    is: 1 / (1 + exp(-y)), whose error is relative to it.
    """
    rate, rate_off = t.A_log.exp()[:, None], (1 + t.A_log.abs())[:, None]  # exp(A_log), the error relative
    if lower_bound == 0.0:
        softplus = F.softplus(t.x)
        off = 1 + softplus + torch.sigmoid(t.x) * t.x.abs()  # softplus(x)
        off = rate * (off + softplus * rate_off)  # exp(A_log) softplus(x)
        off += 1 + rate * softplus  # what exp adds
    else:
        y = rate * t.x
        off = y.abs() * (1 + rate_off) + rate * t.x.abs()  # exp(A_log) x
        sigmoid = torch.sigmoid(y)
        off = sigmoid * ((1 - sigmoid) * (off + y.abs()) + 2)  # sigmoid(y)
        nats = -lower_bound * sigmoid
        off = 1 + nats + (nats - lower_bound * off)  # lower_bound sigmoid(y), and what exp adds
    g, b = decay(t.x, t.A_log, lower_bound), t.b[..., None]
    sigmoid = torch.sigmoid(b)  # a limit of 1 or 2 is exact
    beta_off = beta_limit * (sigmoid * (1 + (1 - sigmoid) * b.abs()) + UNDERFLOW)
    return Gates(g, g * off + UNDERFLOW, beta_limit * sigmoid, beta_off)


def written_states(sizes: tuple[int, int, int, int], random: Generator, device: str) -> Tensor:
    """Draws states of values that were written with normalised keys, and decayed since; sizes are N, HV, V and K."""
    N, HV, V, K = sizes
    keys = F.normalize(torch.randn(N, HV, WRITTEN, K, generator=random), dim=-1)
    kept = torch.rand(N, HV, WRITTEN, 1, generator=random)
    values = kept * torch.randn(N, HV, WRITTEN, V, generator=random)
    return values.to(device).mT @ keys.to(device)


def other_states(sizes: tuple[int, int, int, int], dtype: torch.dtype, random: Generator, device: str) -> Tensor:
    """A pool whose slots differ: one draw, rolled and scaled for each; sizes are slots, HV, V and K.

    A pool may have gigabytes, so that it is made on the device, from a draw on the CPU.
    """
    drawn = torch.randn(sizes[1:], generator=random).to(device)
    pool = torch.empty(sizes, dtype=dtype, device=device)
    for place in range(sizes[0]):
        pool[place] = 0.05 * (1 + place % 7) * drawn.roll(place, dims=1)
    return pool


def drawn_slots(count: int, sequences: int, padded: bool, random: Generator) -> Tensor:
    """Slots of sequences without repetition, from 1 on, [sequences]; padded, every third is 0 or -1, in turn."""
    slot = 1 + torch.randperm(count - 1, generator=random)[:sequences]
    if padded:
        slot[::6], slot[3::6] = 0, -1
    return slot
