"""Right: writes into the outputs that it is given."""

import honest


def bind(tensors, workload, params):
    return honest.bind_given(tensors)
