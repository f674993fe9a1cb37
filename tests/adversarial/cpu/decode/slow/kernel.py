"""Right, and slow: 5 ms a call, so that a round takes a tenth of a second."""

import time

import honest


def bind(tensors, workload, params):
    run = honest.bind(tensors)

    def call():
        time.sleep(0.005)
        return run()

    return call
