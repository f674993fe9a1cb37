"""The decode step in eager torch, fp32."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

if TYPE_CHECKING:
    from collections.abc import Callable

    from gdnbench import Params, Shape


def bind(tensors, shape: Shape, params: Params) -> Callable[[], tuple[torch.Tensor, torch.Tensor]]:
    del shape, params
    t = tensors
    return lambda: gdn_decode(t.q, t.k, t.v, t.state, t.A_log, t.dt_bias, t.a, t.b, t.scale)


def gdn_decode(q, k, v, state, A_log, dt_bias, a, b, scale):
    """The op as written: S = g*S; r = S k; S += beta (v - r) k^T; output = scale * (S q)."""
    share = v.shape[2] // q.shape[2]
    q = q[:, 0].float().repeat_interleave(share, dim=1)
    k = k[:, 0].float().repeat_interleave(share, dim=1)
    g = torch.exp(-torch.exp(A_log) * F.softplus(a[:, 0].float() + dt_bias))
    beta = torch.sigmoid(b[:, 0].float())

    # A product and a sum, not a matmul: matmul may use TF32, which the gates do not forgive.
    decayed = g[:, :, None, None] * state
    retrieved = (decayed * k[:, :, None, :]).sum(-1)
    delta = beta[:, :, None] * (v[:, 0].float() - retrieved)
    new_state = decayed + delta[:, :, :, None] * k[:, :, None, :]
    output = scale * (new_state * q[:, :, None, :]).sum(-1)
    return output[:, None].to(v.dtype), new_state
