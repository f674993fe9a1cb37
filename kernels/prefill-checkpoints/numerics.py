"""Inputs of the prefill with checkpoints, a float64 oracle, and roundoff: those of `prefill`, and states on the way."""

from __future__ import annotations

from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from gdnbench.launch import load_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gdnbench import Shape

Tensors = dict[str, torch.Tensor]

prefill = load_file(Path(__file__).parent.parent / "prefill" / "numerics.py")


def make_inputs(shape: Shape, seed: int, device: str, scenario: str) -> tuple[Tensors, dict[str, float]]:
    """Draws the inputs of `prefill`, and says where the checkpoints of each sequence begin.

    Args:
        shape: the workload.
        seed: of every draw.
        device: a torch device.
        scenario: one of `prefill`'s, or a profile of `gdnbench.decays`.

    Returns:
        The input tensors and the scalars, by name.
    """
    tensors, scalars = prefill.make_inputs(shape, seed, device, scenario)
    starts = [0, *accumulate(length // shape.EVERY for length in shape.lengths)]
    return tensors | {"checkpoint_cu_starts": torch.tensor(starts, device=device)}, scalars


def oracle(tensors: Tensors, scalars: dict[str, float], workload: Shape) -> Tensors:
    """The outputs in float64, from the inputs as they are."""
    found = prefill.delta_rule(tensors, torch.float64)
    kept = _at_checkpoints(found.chunks, found.begun, found.new_state, tensors["cu_seqlens"], workload.EVERY)
    return {"output": scalars["scale"] * found.output, "new_state": found.new_state, "checkpoints": kept}


def roundoff(tensors: Tensors, scalars: dict[str, float], workload: Shape) -> Tensors:
    """What products of bf16 may make of the outputs, as for `prefill`; kernels may cut at each checkpoint, too."""
    segment = min(prefill.SEGMENT, workload.EVERY // prefill.CHUNK)
    found, ends = prefill.variances(tensors, segment), tensors["cu_seqlens"]
    kept = _at_checkpoints(prefill.Chunks.cut(ends), found.begun, found.last, ends, workload.EVERY)
    return {
        "output": scalars["scale"] * found.output.sqrt(),
        "new_state": found.last.sqrt(),
        "checkpoints": kept.sqrt(),
    }


def _at_checkpoints(
    chunks: object, begun: torch.Tensor, last: torch.Tensor, ends: torch.Tensor, every: int
) -> torch.Tensor:
    """Picks the checkpoints [CHECKPOINTS, HV, V, K] from the states at chunks' beginnings and sequences' ends."""
    rank = {number: place for place, number in enumerate(chunks.sequences.tolist())}

    def states() -> Iterator[torch.Tensor]:
        for number, (begin, end) in enumerate(pairwise(ends.tolist())):
            for tokens in range(every, end - begin + 1, every):
                if tokens == end - begin:
                    yield last[number]
                else:  # sequences with a chunk come first in its step
                    yield begun[chunks.steps[tokens // prefill.CHUNK].start + rank[number]]

    return torch.stack(list(states()))
