"""The bundled reference, for kernels that are right but for one fault; the tests put this folder on PYTHONPATH."""

from collections import Counter

import torch

from gdnbench.catalog.catalog import default_roots
from gdnbench.launch.numerics import load_file

_reference = load_file(default_roots()[0] / "decode" / "reference" / "kernel.py")


def bind(tensors):
    """A call that computes the op's outputs, right and new each time."""
    return _reference.bind(tensors, None, None)


def bind_given(tensors):
    """The same into the outputs that were given."""
    run = bind(tensors)

    def call():
        output, new_state = run()
        return tensors.output.copy_(output), tensors.new_state.copy_(new_state)

    return call


HONEST_CALLS = 60  # more than the preflight makes

_calls = Counter()


def is_timed(kernel):
    """Whether a kernel has been called more often than the preflight does; counts its calls."""
    _calls[kernel] += 1
    return _calls[kernel] > HONEST_CALLS


def is_captured(tensors):
    """Whether launches go into a CUDA graph now, in which a cheat had better be honest."""
    return tensors.state.is_cuda and torch.cuda.is_current_stream_capturing()
