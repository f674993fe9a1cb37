"""Wrong: e^x as (1 + x / 1024)^1024, ten squarings, which is off by x^2 / 2048 of itself."""

import torch
import torch.nn.functional as F

_SQUARINGS = 10


def _exp(x):
    power = (1 + x / (1 << _SQUARINGS)).clamp(min=0)
    for _ in range(_SQUARINGS):
        power = power * power
    return power


def bind(t, workload, params):
    share = t.v.shape[2] // t.q.shape[2]

    def call():
        q = t.q[:, 0].float().repeat_interleave(share, dim=1)
        k = t.k[:, 0].float().repeat_interleave(share, dim=1)
        g = _exp(-torch.exp(t.A_log) * F.softplus(t.a[:, 0].float() + t.dt_bias))
        decayed = g[:, :, None, None] * t.state
        retrieved = (decayed * k[:, :, None, :]).sum(-1)
        delta = torch.sigmoid(t.b[:, 0].float())[:, :, None] * (t.v[:, 0].float() - retrieved)
        new_state = decayed + delta[:, :, :, None] * k[:, :, None, :]
        output = t.scale * (new_state * q[:, :, None, :]).sum(-1)
        return output[:, None].to(t.v.dtype), new_state

    return call
