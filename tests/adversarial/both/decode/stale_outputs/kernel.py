"""Cheats: computes at its first call and writes nothing later, for memory still holds the answer then."""

from itertools import count

import torch

import honest


def bind(tensors, workload, params):
    run = honest.bind(tensors) if params.HOW == "own" else honest.bind_given(tensors)
    calls = count(1)

    def given():
        """Counts on the outputs that it was given to be as it left them."""
        return run() if next(calls) == 1 else (tensors.output, tensors.new_state)

    def own():
        """Counts on the allocator to hand out the memory that was freed last."""
        return (run if next(calls) == 1 else _empty)()

    def _empty():
        return torch.empty_like(tensors.output), torch.empty_like(tensors.new_state)

    def late():
        """As `given`, once it is timed."""
        return (tensors.output, tensors.new_state) if honest.is_timed("stale-outputs") else run()

    return {"given": given, "own": own, "late": late}[params.HOW]
