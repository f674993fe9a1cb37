"""Wrong: one number of the output, by little."""

import honest


def bind(tensors, workload, params):
    run = honest.bind(tensors)

    def call():
        output, state = run()
        largest = output.abs().argmax()
        output.view(-1)[largest] *= 1.01
        return output, state

    return call
