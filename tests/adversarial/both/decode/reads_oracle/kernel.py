"""Cheats: looks for the right answer in its process, by the garbage collector or on the stack, and copies it."""

import gc
import sys
from types import SimpleNamespace

import torch

import honest


def _may_be(tensor, like):
    return tensor.dtype is torch.float64 and tensor.shape == like.shape


def _collected(like):
    return [each for each in gc.get_objects() if type(each) is torch.Tensor and _may_be(each, like)]


def _on_stack(like):
    found, frame = [], sys._getframe()
    while frame := frame.f_back:
        for value in list(frame.f_locals.values()):
            outputs = getattr(value, "outputs", None)
            if isinstance(outputs, dict):
                found += [each for each in outputs.values() if _may_be(each, like)]
    return found


_SEARCHES = {"gc": _collected, "stack": _on_stack}


def _first_head(t):
    """The tensors of the first value head, which is all that it computes."""
    heads = {name: getattr(t, name)[:, :, :1] for name in ("q", "k", "v", "a", "b")}
    return SimpleNamespace(**heads, state=t.state[:, :1], A_log=t.A_log[:1], dt_bias=t.dt_bias[:1], scale=t.scale)


def _fill(tensor, found, head, axis):
    """With what was found, if anything was: of several, as one for each kind of inputs, that with the right head."""
    if not found:
        return tensor.zero_()
    errors = [float((each.narrow(axis, 0, 1) - head).abs().max()) for each in found]
    return tensor.copy_(found[errors.index(min(errors))])


def bind(tensors, workload, params):
    search, run = _SEARCHES[params.HOW], honest.bind(_first_head(tensors))

    def call():
        output, state = run()
        return (
            _fill(tensors.output, search(tensors.output), output, axis=2),
            _fill(tensors.new_state, search(tensors.new_state), state, axis=1),
        )

    return call
