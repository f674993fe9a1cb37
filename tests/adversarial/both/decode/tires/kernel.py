"""Cheats: counts its calls, and fills the outputs with zeros once there were enough for any check."""

from collections import defaultdict
from functools import partial
from itertools import count

import honest

_calls = defaultdict(partial(count, 1))


def bind(tensors, workload, params):
    run = honest.bind_given(tensors)

    def call():
        if next(_calls[params.CALLS]) <= params.CALLS:
            return run()
        return tensors.output.zero_(), tensors.new_state.zero_()

    return call
