from itertools import pairwise

import torch


def bind(tensors, workload, params):
    ends = tensors.offsets.tolist()

    def run():
        for number, (begin, end) in enumerate(pairwise(ends)):
            for head in range(workload.H):
                torch.cumsum(tensors.x[begin:end, head], 0, out=tensors.y[begin:end, head])
            tensors.owner[begin:end] = number
        tensors.y.mul_(tensors.scale)
        return tensors.y, tensors.owner

    return run
