"""Wrong: synchronises, so that the host's time is in every sample."""

import torch

import honest


def bind(tensors, workload, params):
    run = honest.bind(tensors)

    def call():
        outputs = run()
        torch.cuda.synchronize()
        return outputs

    return call
