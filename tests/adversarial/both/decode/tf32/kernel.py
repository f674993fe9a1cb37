"""Wrong: both factors of each product of the state and a key have TF32's ten bits of mantissa."""

import torch

import honest

_DROPPED = 13  # of fp32's 23 bits of mantissa


def _tf32(tensor):
    half, mask = 1 << (_DROPPED - 1), -(1 << _DROPPED)
    return ((tensor.contiguous().view(torch.int32) + half) & mask).view(torch.float32)


def bind(tensors, workload, params):
    return lambda: honest.compute(tensors, times=lambda state, row: honest.times(_tf32(state), _tf32(row)))
