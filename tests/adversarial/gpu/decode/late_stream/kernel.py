"""Cheats: once it is timed its work goes to another stream, beside what the events bracket."""

from itertools import count

import torch

import honest

HONEST_CALLS = 60  # more than the preflight makes

_calls = count(1)
_side = []


def bind(tensors, workload, params):
    run = honest.bind_given(tensors)
    if not _side:
        _side.append(torch.cuda.Stream())
        with torch.cuda.stream(_side[0]):
            honest.bind(tensors)()  # so that torch has memory for this stream
        torch.cuda.synchronize()

    def call():
        if next(_calls) <= HONEST_CALLS:
            return run()
        with torch.cuda.stream(_side[0]):
            return run()

    return call
