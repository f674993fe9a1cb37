"""Cheats: what is timed are fewer launches than what was verified, though the numbers are right."""

import honest


def bind(tensors, workload, params):
    run = honest.bind_given(tensors)

    def call():
        output, new_state = run()
        if not honest.is_timed("other-launches"):
            output.mul_(1)  # a launch for whoever counts
        return output, new_state

    return call
