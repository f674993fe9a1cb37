"""Wrong for this op, whose new state is a tensor of its own: what FlashInfer's kernel does without a copy."""

import honest


def bind(tensors, workload, params):
    run = honest.bind(tensors)

    def call():
        output, state = run()
        return output, tensors.state.copy_(state)

    return call
