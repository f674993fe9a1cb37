"""Right: only the declaration is at fault."""

import honest


def bind(tensors, workload, params):
    return honest.bind(tensors)
