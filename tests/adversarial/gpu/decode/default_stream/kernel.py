"""Wrong: the work goes to the default stream."""

import torch

import honest


def bind(tensors, shape, params):
    run = honest.bind(tensors)

    def call():
        with torch.cuda.stream(torch.cuda.default_stream()):
            return run()

    return call
