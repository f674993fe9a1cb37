"""Cheats: counts its calls, and fills the outputs with zeros once there were enough for any check."""

import honest


def bind(tensors, workload, params):
    run = honest.bind_given(tensors)

    def call():
        if honest.count_call(f"tires-{params.CALLS}") <= params.CALLS:
            return run()
        return tensors.output.zero_(), tensors.new_state.zero_()

    return call
