import torch


def bind(tensors, workload, params):
    def run():
        for row in range(0, workload.M, params.ROWS):
            torch.mm(tensors.A[row : row + params.ROWS], tensors.B.T, out=tensors.C[row : row + params.ROWS])
        return (tensors.C,)

    return run
