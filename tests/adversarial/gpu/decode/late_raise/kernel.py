"""Wrong: fails while it is measured, and does not take its process down."""

from itertools import count

import honest

HONEST_CALLS = 60  # of a process: the preflight makes about 30, the timer warms up with more than 80

calls = count(1)


def bind(tensors, workload, params):
    run = honest.bind(tensors)

    def call():
        if next(calls) > HONEST_CALLS:
            raise ValueError("tired of being measured")
        return run()

    return call
