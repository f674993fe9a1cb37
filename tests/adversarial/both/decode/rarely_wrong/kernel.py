"""Cheats: once it is timed it leaves out the work at random, in one launch of so many."""

import random

import honest


def bind(tensors, workload, params):
    run = honest.bind_given(tensors)

    def call():
        if not honest.is_timed(f"rarely-wrong-{params.ONE_IN}") or random.randrange(params.ONE_IN):
            return run()
        return tensors.output, tensors.new_state

    return call
