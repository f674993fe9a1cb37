"""Cheats: what depends on A_log alone is computed before any clock runs, and never again."""

import torch
import torch.nn.functional as F


def bind(t, workload, params):
    share, rate = t.v.shape[2] // t.q.shape[2], torch.exp(t.A_log)

    def call():
        q = t.q[:, 0].float().repeat_interleave(share, dim=1)
        k = t.k[:, 0].float().repeat_interleave(share, dim=1)
        g = torch.exp(-rate * F.softplus(t.a[:, 0].float() + t.dt_bias))
        decayed = g[:, :, None, None] * t.state
        retrieved = (decayed * k[:, :, None, :]).sum(-1)
        delta = torch.sigmoid(t.b[:, 0].float())[:, :, None] * (t.v[:, 0].float() - retrieved)
        new_state = decayed + delta[:, :, :, None] * k[:, :, None, :]
        output = t.scale * (new_state * q[:, :, None, :]).sum(-1)
        return output[:, None].to(t.v.dtype), new_state

    return call
