"""Wrong: accumulates into a buffer that it clears only once."""

import honest


def bind(tensors, workload, params):
    run = honest.bind(tensors)
    launches = 0

    def call():
        nonlocal launches
        launches += 1
        output, state = run()
        return output * launches, state

    return call
