"""Inputs of a decode step with a ring of what was written, its float64 oracle, and the roundoff of fp32 arithmetic."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, NamedTuple

import torch
import torch.nn.functional as F

from gdnbench.launch import load_file

if TYPE_CHECKING:
    from gdnbench import Shape

Tensors = dict[str, torch.Tensor]

FEWEST_SLOTS, SLOTS_PER_SEQUENCE, RING = 64, 4, 16  # as op.py declares them
OF_TOKENS = ("mixed_qkv", "a", "b")
RATE = (0.01, 0.5)  # of -log g of the tokens in the ring, drawn from in between

verify = load_file(Path(__file__).parent.parent / "verify" / "numerics.py")


def make_inputs(shape: Shape, seed: int, device: str, scenario: str) -> tuple[Tensors, dict[str, float]]:
    """Draws one step's inputs: those of `verify` for one token, and rings that are filled up to where each sequence is.

    In the ring are normalised keys, u ~ N(0, 1), as large as the states are in `large-state`, and sums of -log g, each
    of 0.01 to 0.5. Behind hist_len, and in slots that no sequence has, other numbers stand.

    Args:
        shape: the workload.
        seed: of every draw.
        device: a torch device.
        scenario: one of `verify`'s, with hist_len of 0 to FLUSH, each as likely; `padded`, whose hist_len may be
            anything; `empty`, `flush`, hist_len of 0 and of FLUSH; or a profile of `gdnbench.decays`.

    Returns:
        The input tensors and the scalars, by name.
    """
    random = torch.Generator(device="cpu").manual_seed(seed)
    tensors, states = verify.draw_step(SimpleNamespace(**shape.axes, T=1), random, device, scenario)
    tensors |= {name: tensors[name][:, 0] for name in OF_TOKENS}
    count = max(FEWEST_SLOTS, SLOTS_PER_SEQUENCE * shape.B)
    slot = 1 + torch.randperm(count - 1, generator=random)[: shape.B]
    filled = torch.randint(0, shape.FLUSH + 1, (shape.B,), generator=random)
    if scenario in {"empty", "flush"}:
        filled = torch.full_like(filled, 0 if scenario == "empty" else shape.FLUSH)
    pool = verify.other_states(shape, count, random, device)
    pool[slot.to(device)] = states.to(pool.dtype)
    keys = F.normalize(torch.randn(count, shape.HQ, RING, shape.K, generator=random), dim=-1)
    u = torch.randn(count, shape.HV, RING, shape.V, generator=random)
    decays = -torch.empty(count, shape.HV, RING).uniform_(*RATE, generator=random).cumsum(-1)
    ends = torch.zeros(count, dtype=torch.long).scatter(0, slot, filled)
    behind = ends[:, None, None, None] <= torch.arange(RING)[:, None]
    size = verify.LARGE if scenario == "large-state" else 1.0
    if scenario == "padded":
        slot[::6], slot[3::6] = 0, -1
        filled[::3] = 1000
    tensors |= {
        "pool": pool,
        "k_cache": torch.where(behind, 3.0 * keys.flip(-1), keys).bfloat16(),
        "u_cache": torch.where(behind, 3.0 * u.flip(-1), size * u).bfloat16(),
        "g_cache": torch.where(behind[..., 0], -decays, decays),
        "slot": slot.int(),
        "hist_len": filled.int(),
    }
    scalars = {"scale": shape.K**-0.5, "beta_limit": float(shape.BETA)}
    return {name: tensor.contiguous().to(device) for name, tensor in tensors.items()}, scalars


class Replayed(NamedTuple):
    """Of the sequences of a batch: inputs of a token, and what the ring makes of the state [N, HV, V, K]."""

    live: torch.Tensor  # [B]
    t: Tensors
    state: torch.Tensor
    magnitude: torch.Tensor  # of the terms that the state is a sum of
    error: torch.Tensor  # their roundoff
    decay: torch.Tensor  # the sum of log g so far [N, HV]


def oracle(tensors: Tensors, scalars: dict[str, float], workload: Shape) -> Tensors:
    """The outputs in float64, from the inputs as they are."""
    past = _replayed(tensors, torch.float64)
    output, states = verify.recurrence(past.t, past.state, **scalars)
    rate = past.t["A_log"].exp() * F.softplus(past.t["a"] + past.t["dt_bias"])[:, 0]
    decayed = rate.neg().exp()[..., None, None] * past.state
    k = past.t["k"][:, 0]
    beta = scalars["beta_limit"] * torch.sigmoid(past.t["b"][:, 0, :, None])
    u = beta * (past.t["v"][:, 0] - torch.einsum("nhvk,nhk->nhv", decayed, k))
    kept = {name: tensors[name].double() for name in ("pool", "k_cache", "u_cache", "g_cache")}
    return _placed(tensors, workload, past, kept, (output[:, 0], states[:, 0], k, u, past.decay - rate))


def roundoff(tensors: Tensors, scalars: dict[str, float], workload: Shape) -> Tensors:
    """What fp32 arithmetic may make of the outputs, as for `verify`, from a state that was replayed from the ring.

    Each term of that, exp(G_P - G_j) u_j k_j, has the roundoff of a difference, of an exponential and of products;
    their sum that of its terms. What stands in the ring is as it is. Slots and places that nobody writes have none.
    """
    past = _replayed(tensors, torch.float32)
    found = verify.carried_roundoff(past.t, past.state, past.magnitude, past.error, **scalars)
    k = past.t["k"][:, 0]
    norm_off = math.sqrt(k.shape[-1]) / 2 + verify.NORM_ROUNDOFFS + 1
    x, A = (past.t["a"] + past.t["dt_bias"])[:, 0], past.t["A_log"].exp()
    softplus = F.softplus(x)
    decay_off = A * (1 + 3 * softplus + torch.sigmoid(x) * x.abs() + softplus * past.t["A_log"].abs())  # of G + log g
    kept = {
        name: torch.zeros_like(tensors[name], dtype=torch.float32) for name in ("pool", "k_cache", "u_cache", "g_cache")
    }
    sizes = (
        found.output[:, 0],
        found.states[:, 0],
        norm_off * k.abs(),
        found.deltas[:, 0],
        decay_off + past.decay.abs(),
    )
    return _placed(tensors, workload, past, kept, sizes)


def _replayed(tensors: Tensors, dtype: torch.dtype) -> Replayed:
    """Takes what stands in the rings into the states: S = exp(G_P) S + sum of exp(G_P - G_j) u_j k_j^T over j < P."""
    live = tensors["slot"] > 0
    slot, filled = tensors["slot"][live].long(), tensors["hist_len"][live].long()
    t = verify.unpacked(tensors | {name: tensors[name][:, None] for name in OF_TOKENS}, live, dtype)
    first, u = tensors["pool"][slot].to(dtype), tensors["u_cache"][slot].to(dtype)
    keys = tensors["k_cache"][slot].to(dtype).repeat_interleave(u.shape[1] // tensors["k_cache"].shape[1], dim=1)
    has = (torch.arange(RING, device=slot.device) < filled[:, None])[:, None]
    sums = torch.where(has, tensors["g_cache"][slot].to(dtype), 0)
    last = sums.gather(-1, (filled - 1).clamp(min=0)[:, None, None].expand(-1, u.shape[1], 1))
    apart = torch.where(has, last - sums, -torch.inf)  # log of what is left of each
    shares, whole = apart.exp(), last.exp()[..., None]
    state = whole * first + torch.einsum("nhr,nhrv,nhrk->nhvk", shares, u, keys)

    def terms(more: torch.Tensor, of_first: torch.Tensor) -> torch.Tensor:
        return of_first * whole * first.abs() + torch.einsum("nhr,nhrv,nhrk->nhvk", more * shares, u.abs(), keys.abs())

    magnitude = terms(torch.ones_like(shares), torch.ones_like(whole))
    in_exponent = 3 + 3 * torch.where(has, apart, 0).abs()
    error = terms(in_exponent, 3 + 3 * last.abs()[..., None]) + math.sqrt(RING) * magnitude
    return Replayed(live, t, state, magnitude, error, last[..., 0])


def _placed(
    tensors: Tensors, workload: Shape, past: Replayed, kept: Tensors, found: tuple[torch.Tensor, ...]
) -> Tensors:
    """The outputs by name: output, state, key, u and sum of log g of each sequence, where each goes."""
    output, state, k, u, decay = found
    slot, filled = tensors["slot"][past.live].long(), tensors["hist_len"][past.live].long()
    outputs = output.new_zeros(len(past.live), *output.shape[1:])
    outputs[past.live] = output
    flushed = filled >= workload.FLUSH
    kept["pool"][slot[flushed]] = state[flushed]
    slot, place = slot[~flushed], filled[~flushed]
    share = u.shape[1] // kept["k_cache"].shape[1]
    kept["k_cache"][slot, :, place] = k[~flushed, ::share]
    kept["u_cache"][slot, :, place] = u[~flushed]
    kept["g_cache"][slot, :, place] = decay[~flushed]
    return {"output": outputs} | {f"new_{name}": each for name, each in kept.items()}
