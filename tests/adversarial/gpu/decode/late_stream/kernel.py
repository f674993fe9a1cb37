"""Cheats: once it is timed its work goes to another stream, beside what the events bracket."""

import torch

import honest

_side = []


def bind(tensors, workload, params):
    run = honest.bind_given(tensors)
    if not _side:
        _side.append(torch.cuda.Stream())
        with torch.cuda.stream(_side[0]):
            honest.bind(tensors)()  # so that torch has memory for this stream
        torch.cuda.synchronize()

    def call():
        if not honest.is_timed("late-stream"):
            return run()
        with torch.cuda.stream(_side[0]):
            return run()

    return call
