"""Wrong: the new state is made on the stream it was given, the output on another."""

import torch

import honest


def bind(tensors, workload, params):
    run = honest.bind(tensors)
    side = torch.cuda.Stream()

    def call():
        tensors.new_state.copy_(run()[1])
        with torch.cuda.stream(side):
            tensors.output.copy_(run()[0])
        return tensors.output, tensors.new_state

    return call
