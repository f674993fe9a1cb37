import itertools

import torch


def bind(tensors, workload, params):
    ends = tensors.offsets.tolist()

    def run():
        for number, (begin, end) in enumerate(itertools.pairwise(ends)):
            torch.cumsum(tensors.x[begin:end], 0, out=tensors.y[begin:end])
            tensors.owner[begin:end] = number
        tensors.y.mul_(tensors.scale)
        return tensors.y, tensors.owner

    return run
