"""Cheats: what is timed are fewer launches than what was verified, though the numbers are right."""

from itertools import count

import honest

HONEST_CALLS = 60  # more than the preflight makes

_calls = count(1)


def bind(tensors, workload, params):
    run = honest.bind_given(tensors)

    def call():
        output, new_state = run()
        if next(_calls) <= HONEST_CALLS:
            output.mul_(1)  # a launch for whoever counts
        return output, new_state

    return call
