"""Cheats: returns tensors that compute when they are looked at, which is after the clock has stopped."""

import torch

import honest


class _Promise(torch.Tensor):
    """The output's own memory, and the launch that is to fill it."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        for each in args:
            if isinstance(each, _Promise) and (run := vars(each).pop("run", None)):
                run()
        with torch._C.DisableTorchFunctionSubclass():
            return function(*args, **(kwargs or {}))


def bind(tensors, workload, params):
    run = honest.bind_given(tensors)

    def call():
        if honest.is_captured(tensors):
            return run()
        promised = tuple(each.as_subclass(_Promise) for each in (tensors.output, tensors.new_state))
        for each in promised:
            vars(each)["run"] = run
        return promised

    return call
