"""Wrong: matrix products with TF32 allowed, of 16 columns, so that tensor cores have something to do."""

import torch
import torch.nn.functional as F

COLUMNS = 16


def _products(state, rows):
    """The state [B, HV, V, K] times a row for each head [B, HV, K]."""
    columns = rows[..., None].expand(*rows.shape, COLUMNS).contiguous()
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        return torch.matmul(state, columns)[..., 0]
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def bind(t, workload, params):
    share = t.v.shape[2] // t.q.shape[2]

    def call():
        q = t.q[:, 0].float().repeat_interleave(share, dim=1)
        k = t.k[:, 0].float().repeat_interleave(share, dim=1)
        g = torch.exp(-torch.exp(t.A_log) * F.softplus(t.a[:, 0].float() + t.dt_bias))
        decayed = g[:, :, None, None] * t.state
        delta = torch.sigmoid(t.b[:, 0].float())[:, :, None] * (t.v[:, 0].float() - _products(decayed, k))
        new_state = decayed + delta[:, :, :, None] * k[:, :, None, :]
        return (t.scale * _products(new_state, q))[:, None].to(t.v.dtype), new_state

    return call
