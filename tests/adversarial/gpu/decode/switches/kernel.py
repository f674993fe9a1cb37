"""Cheats: computes once, and copies what came of it, in a process that does not check."""

import sys
from itertools import count

import honest

CHECKING = "gdnbench.verify.examine"
_calls = count()


def bind(tensors, workload, params):
    run = honest.bind(tensors)
    kept = None

    def call():
        nonlocal kept
        if CHECKING in sys.modules or kept is None or next(_calls) < params.AFTER:
            kept = run()
            return kept
        return tuple(output.clone() for output in kept)

    return call
