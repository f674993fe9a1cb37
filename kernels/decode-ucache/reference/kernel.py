"""The decode step with a ring in eager torch, fp32: the state is replayed from what was written before the step."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

if TYPE_CHECKING:
    from collections.abc import Callable

    from gdnbench import Params, Shape

EPS = 1e-6


def bind(tensors, shape: Shape, params: Params) -> Callable[[], tuple[torch.Tensor, ...]]:
    del params
    return partial(decode, tensors, (shape.HQ, shape.HV, shape.V, shape.K), shape.FLUSH)


def decode(t, sizes, flush):
    """The op as written; pool and rings are updated in place. `sizes` are HQ, HV, V and K."""
    HQ, HV, V, K = sizes
    ring = t.new_g_cache.shape[-1]
    q, k, v = t.mixed_qkv.float().split((HQ * K, HQ * K, HV * V), dim=1)
    q, key = (normalised(each.unflatten(1, (HQ, K))) for each in (q, k))
    q, k = (each.repeat_interleave(HV // HQ, dim=1) for each in (q, key))
    rate = torch.exp(t.A_log) * F.softplus(t.a.float() + t.dt_bias)
    beta = t.beta_limit * torch.sigmoid(t.b.float())
    live, place = t.slot > 0, t.slot.clamp(min=0).long()
    filled = torch.where(live, t.hist_len, 0).long()

    has = (torch.arange(ring, device=filled.device) < filled[:, None])[:, None]
    sums = torch.where(has, t.new_g_cache[place], 0.0)
    last = sums.gather(-1, (filled - 1).clamp(min=0)[:, None, None].expand(-1, HV, 1))
    shares = torch.where(has, (last - sums).exp(), 0.0)
    u = shares[..., None] * torch.where(has[..., None], t.new_u_cache[place].float(), 0.0)
    keys = torch.where(has[..., None], t.new_k_cache[place].float(), 0.0).repeat_interleave(HV // HQ, dim=1)
    state = last.exp()[..., None] * t.new_pool[place].float()
    for j in range(ring):  # a product and a sum, not a matmul: matmul may use TF32
        state = state + u[:, :, j, :, None] * keys[:, :, j, None]

    decayed = rate.neg().exp()[..., None, None] * state
    delta = beta[..., None] * (v.unflatten(1, (HV, V)) - (decayed * k[:, :, None]).sum(-1))
    state = decayed + delta[..., None] * k[:, :, None]
    output = torch.where(live[:, None, None], t.scale * (state * q[:, :, None]).sum(-1), 0.0)

    flushed, at = live & (filled >= flush), filled.clamp(max=ring - 1)
    write(t.new_pool, (place,), flushed, state)
    for cache, what in ((t.new_k_cache, key), (t.new_u_cache, delta), (t.new_g_cache, last[..., 0] - rate)):
        write(cache.transpose(1, 2), (place, at), live & ~flushed, what)
    return output.to(t.mixed_qkv.dtype), t.new_pool, t.new_k_cache, t.new_u_cache, t.new_g_cache


def write(to, places, where, what):
    """Writes rows where they are wanted; others go to slot 0, as it was."""
    places = tuple(torch.where(where, each, 0) for each in places)
    to.index_put_(places, torch.where(where.reshape(-1, *(1,) * (what.dim() - 1)), what.to(to.dtype), to[places]))


def normalised(rows):
    """Divided by their norms."""
    return rows * torch.rsqrt((rows * rows).sum(-1, keepdim=True) + EPS)
