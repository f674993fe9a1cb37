"""Wrong: divides zero by zero once."""

import honest


def bind(tensors, workload, params):
    run = honest.bind(tensors)

    def call():
        output, state = run()
        state[-1, -1, -1, -1] = (state[0, 0, 0, 0] - state[0, 0, 0, 0]) / 0.0
        return output, state

    return call
