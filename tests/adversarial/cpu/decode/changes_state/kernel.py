"""Wrong: writes one element of the state that it was given to read."""

import honest


def bind(tensors, workload, params):
    run = honest.bind(tensors)

    def call():
        outputs = run()
        tensors.state[0, 0, 0, 0] += 1.0
        return outputs

    return call
