import time

WORK_S = 0.002  # a kernel does more than copy: it takes longer than any form of the floor


def bind(tensors, workload, params):
    def run():
        time.sleep(WORK_S)
        return (tensors.y.copy_(tensors.x),)

    return run
