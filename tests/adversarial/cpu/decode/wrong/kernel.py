"""Wrong in one way, which HOW names, and right but for that."""

from itertools import count

import honest


def _rounded(tensors, output, state, number):
    """One number of the output, by little."""
    output.view(-1)[output.abs().argmax()] *= 1.01
    return output, state


def _nan(tensors, output, state, number):
    """Divides zero by zero once."""
    state[-1, -1, -1, -1] = (state[0, 0, 0, 0] - state[0, 0, 0, 0]) / 0.0
    return output, state


def _drifts(tensors, output, state, number):
    """Accumulates into a buffer that it clears only once."""
    return output * number, state


def _partial(tensors, output, state, number):
    """Leaves the last head of the new state as it was before the launch."""
    tensors.new_state[:, :-1].copy_(state[:, :-1])
    return tensors.output.copy_(output), tensors.new_state


def _changes_state(tensors, output, state, number):
    """Writes one element of the state that it was given to read."""
    tensors.state[0, 0, 0, 0] += 1.0
    return output, state


def _in_place(tensors, output, state, number):
    """For this op, whose new state is a tensor of its own: what FlashInfer's kernel does without a copy."""
    return output, tensors.state.copy_(state)


def _raises(tensors, output, state, number):
    """With a message that a careless table would take for markup."""
    raise ValueError("no [/bold] tile [red] fits")


_WAYS = {
    **{"rounded": _rounded, "nan": _nan, "drifts": _drifts, "partial": _partial},
    **{"changes-state": _changes_state, "in-place": _in_place, "raises": _raises},
}


def bind(tensors, workload, params):
    run, numbers = honest.bind(tensors), count(1)
    return lambda: _WAYS[params.HOW](tensors, *run(), next(numbers))
