"""Cheats: once it is timed it updates the state that it was given in place, and never restores it."""

from itertools import count

import honest

HONEST_CALLS = 60  # more than the preflight makes

_calls = count(1)


def bind(tensors, workload, params):
    run = honest.bind(tensors)

    def call():
        output, state = run()
        if next(_calls) > HONEST_CALLS:
            tensors.state.copy_(state)
        return output, state

    return call
