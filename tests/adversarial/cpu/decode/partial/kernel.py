"""Wrong: leaves the last head of the new state as it was before the launch."""

import honest


def bind(tensors, workload, params):
    run = honest.bind(tensors)

    def call():
        output, state = run()
        tensors.output.copy_(output)
        tensors.new_state[:, :-1].copy_(state[:, :-1])
        return tensors.output, tensors.new_state

    return call
