"""Wrong: the work goes to a side stream; the stream it was given sees none of it."""

import torch

import honest


def bind(tensors, workload, params):
    run = honest.bind(tensors)
    side = torch.cuda.Stream()

    def call():
        with torch.cuda.stream(side):
            return run()

    return call
