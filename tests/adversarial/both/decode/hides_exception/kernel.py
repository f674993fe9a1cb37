"""Wrong: its fast path cannot run here, and what is to stand in for it does nothing."""

import torch


def _fast(tensors):
    raise NotImplementedError("the fast path needs another GPU")


def bind(tensors, workload, params):
    def call():
        try:
            return _fast(tensors)
        except Exception:
            return torch.zeros_like(tensors.output), torch.zeros_like(tensors.new_state)

    return call
