"""Wrong: both factors of each product of the state and a key have TF32's ten bits of mantissa."""

import torch
import torch.nn.functional as F

_DROPPED = 13  # of fp32's 23 bits of mantissa


def _tf32(tensor):
    half, mask = 1 << (_DROPPED - 1), -(1 << _DROPPED)
    return ((tensor.contiguous().view(torch.int32) + half) & mask).view(torch.float32)


def bind(t, workload, params):
    share = t.v.shape[2] // t.q.shape[2]

    def call():
        q = t.q[:, 0].float().repeat_interleave(share, dim=1)
        k = t.k[:, 0].float().repeat_interleave(share, dim=1)
        g = torch.exp(-torch.exp(t.A_log) * F.softplus(t.a[:, 0].float() + t.dt_bias))
        decayed = g[:, :, None, None] * t.state
        retrieved = (_tf32(decayed) * _tf32(k)[:, :, None, :]).sum(-1)
        delta = torch.sigmoid(t.b[:, 0].float())[:, :, None] * (t.v[:, 0].float() - retrieved)
        new_state = decayed + delta[:, :, :, None] * k[:, :, None, :]
        output = t.scale * (_tf32(new_state) * _tf32(q)[:, :, None, :]).sum(-1)
        return output[:, None].to(t.v.dtype), new_state

    return call
