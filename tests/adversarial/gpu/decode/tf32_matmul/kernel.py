"""Wrong: matrix products with TF32 allowed, of 16 columns, so that tensor cores have something to do."""

import torch

import honest

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


def bind(tensors, workload, params):
    return lambda: honest.compute(tensors, times=_products)
