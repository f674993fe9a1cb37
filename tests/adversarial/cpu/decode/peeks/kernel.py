"""Cheats: finds tensors that are not its own among the objects that Python's garbage collector knows."""

import gc

import torch

import honest


def _tensors():
    return [each for each in gc.get_objects() if type(each) is torch.Tensor]


def _expected(like):
    """The newest tensor in float64 that has the sizes of an output; the output as it is where there is none."""
    found = [each for each in _tensors() if each.dtype is torch.float64 and each.shape == like.shape]
    return found[-1].to(like.dtype) if found else torch.zeros_like(like)


def _clear(like):
    """Every copy of an input becomes zero, so that nothing is left to compute, or to compare with."""
    for each in _tensors():
        if each.dtype is like.dtype and each.shape == like.shape:
            each.zero_()


def bind(tensors, workload, params):
    if params.AT == "answers":
        return lambda: (_expected(tensors.output), _expected(tensors.new_state))
    run = honest.bind(tensors)

    def compute_from_nothing():
        for name in ("q", "k", "v", "state"):
            _clear(getattr(tensors, name))
        return run()

    return compute_from_nothing
