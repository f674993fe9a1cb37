"""Cheats: what depends on A_log alone is computed before any clock runs, and never again."""

import torch

import honest


def bind(tensors, workload, params):
    rate = torch.exp(tensors.A_log)
    return lambda: honest.compute(tensors, rate=rate)
