"""Right: returns outputs of its own, new each time."""

import honest


def bind(tensors, workload, params):
    return honest.bind(tensors)
