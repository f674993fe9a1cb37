"""Right: only the declaration is at fault."""

import honest


def bind(tensors, shape, params):
    return honest.bind(tensors)
