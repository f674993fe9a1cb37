"""Cheats: once it is timed it leaves out the work at random, in one launch of so many."""

import random
from collections import defaultdict
from functools import partial
from itertools import count

import honest

HONEST_CALLS = 60  # more than the preflight makes

_calls = defaultdict(partial(count, 1))


def bind(tensors, workload, params):
    run = honest.bind_given(tensors)

    def call():
        if next(_calls[params.ONE_IN]) <= HONEST_CALLS or random.randrange(params.ONE_IN):
            return run()
        return tensors.output, tensors.new_state

    return call
