"""Wrong: the work goes to the default stream."""

import torch

import honest


def bind(tensors, workload, params):
    run = honest.bind(tensors)

    def call():
        with torch.cuda.stream(torch.cuda.default_stream()):
            return run()

    return call
