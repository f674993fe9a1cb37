"""Cheats: halves what NumPy reads from files, or has every other kernel of its process launched twice."""

import gc
from dataclasses import replace

import numpy as np

import honest


def _halve_what_is_read():
    read = np.fromfile

    def half(*given, **named):
        return read(*given, **named) / np.float32(2)

    np.fromfile = half


def _wrap_other_rotations():
    """On the instances: a comparison of classes sees nothing."""
    for rotation in [each for each in gc.get_objects() if type(each).__name__ == "Rotation"]:
        if "next_placement" in vars(rotation):
            continue

        def twice(following=rotation.next_placement):
            placement = following()
            return replace(placement, run=lambda: (placement.run(), placement.run())[1])

        rotation.next_placement = twice


def _launch_twice():
    """Where launches of CUDA kernels look it up when they are bound."""
    import cuda.core

    launch = cuda.core.launch

    def twice(*given):
        launch(*given)
        return launch(*given)

    cuda.core.launch = twice


_CHANGES = {"reader": _halve_what_is_read, "instances": _wrap_other_rotations, "launch": _launch_twice}
_done = set()


def bind(tensors, workload, params):
    if params.HOW != "instances" and params.HOW not in _done:
        _CHANGES[params.HOW]()
        _done.add(params.HOW)
    run = honest.bind(tensors)
    if params.HOW != "instances":
        return run

    def run_and_wrap():
        if params.HOW not in _done:
            _done.add(params.HOW)
            _wrap_other_rotations()
        return run()

    return run_and_wrap
