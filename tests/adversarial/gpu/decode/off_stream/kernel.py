"""Wrong: work on other streams than the one that it was given, or a wait for the GPU, which HOW names."""

import torch
from cuda.bindings import runtime

import honest


def _side_stream(tensors, run, side):
    """The stream that it was given sees none of the work."""
    with torch.cuda.stream(side):
        return run()


def _default_stream(tensors, run, side):
    with torch.cuda.stream(torch.cuda.default_stream()):
        return run()


def _half_stream(tensors, run, side):
    """The new state is made on the stream it was given, the output on another."""
    tensors.new_state.copy_(run()[1])
    with torch.cuda.stream(side):
        return tensors.output.copy_(run()[0]), tensors.new_state


def _waits(tensors, run, side):
    """Synchronises, so that the host's time is in every sample."""
    outputs = run()
    torch.cuda.synchronize()
    return outputs


def _asks(tensors, run, side):
    """`.item()` waits for the GPU."""
    if tensors.a[0, 0, 0].item() > 1e9:
        raise ValueError("that is a large gate")
    return run()


def _allocates(tensors, run, side):
    """cudaMalloc and cudaFree wait for the GPU, and a graph cannot hold them."""
    error, scratch = runtime.cudaMalloc(1 << 20)
    if error != runtime.cudaError_t.cudaSuccess:
        raise RuntimeError(f"cudaMalloc: {error.name}")
    outputs = run()
    runtime.cudaFree(scratch)
    return outputs


_WAYS = {
    **{"side-stream": _side_stream, "default-stream": _default_stream, "half-stream": _half_stream},
    **{"waits": _waits, "asks": _asks, "allocates": _allocates},
}


def bind(tensors, workload, params):
    run, side = honest.bind(tensors), torch.cuda.Stream()
    return lambda: _WAYS[params.HOW](tensors, run, side)
