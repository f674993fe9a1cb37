"""Cheats: once it is timed it updates the state that it was given in place, and never restores it."""

import honest


def bind(tensors, workload, params):
    run = honest.bind(tensors)

    def call():
        output, state = run()
        if honest.is_timed("late-update"):
            tensors.state.copy_(state)
        return output, state

    return call
