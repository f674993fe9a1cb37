"""Honest only if it updates all of the new state at every call, and not the input that this starts from."""

import honest


def bind(tensors, workload, params):
    run = honest.bind(tensors, state=tensors.new_state)
    calls = 0

    def call():
        nonlocal calls
        calls += 1
        output, state = run()
        match params.HOW:
            case "always":
                tensors.new_state.copy_(state)
            case "half":
                tensors.new_state[:, ::2].copy_(state[:, ::2])
            case "once" if calls == 1:
                tensors.new_state.copy_(state)
            case "input":
                tensors.new_state.copy_(tensors.state.copy_(state))
        return output, tensors.new_state

    return call
