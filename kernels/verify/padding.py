"""What libraries leave to their callers where an entry of the batch is padding, in one launch."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

BLOCK = 4096
WARPS = 8
PROGRAMS = 8  # of an entry of the batch


@triton.jit
def gdn_clear_padding(
    slot, output, states, named, OUTPUTS: tl.constexpr, STATES: tl.constexpr, NAMES: tl.constexpr, BLOCK: tl.constexpr
):
    entry = tl.program_id(0).to(tl.int64)
    place = tl.load(slot + entry)
    if NAMES:
        tl.store(named + entry, tl.where(place > 0, place, -1))
    if place > 0:
        return
    zero, step = tl.zeros([BLOCK], tl.float32), tl.num_programs(1) * BLOCK
    for first in range(tl.program_id(1) * BLOCK, OUTPUTS, step):
        place_in = first + tl.arange(0, BLOCK)
        tl.store(output + entry * OUTPUTS + place_in, zero.to(output.dtype.element_ty), mask=place_in < OUTPUTS)
    for first in range(tl.program_id(1) * BLOCK, STATES, step):
        place_in = first + tl.arange(0, BLOCK)
        tl.store(states + entry * STATES + place_in, zero.to(states.dtype.element_ty), mask=place_in < STATES)


def clear(slot: torch.Tensor, output: torch.Tensor, states: torch.Tensor, named: torch.Tensor | None = None) -> None:
    """Writes zeros where padding has outputs and states, and reads and writes nothing else of them.

    Args:
        slot: int32 [B]; padding is 0 or less.
        output: [B, …], contiguous.
        states: [B, …], contiguous.
        named: int32 [B], set to the slots with all padding named -1; left out where nobody needs it.
    """
    sizes = {"OUTPUTS": output[0].numel(), "STATES": states[0].numel()}
    gdn_clear_padding[(len(slot), PROGRAMS)](
        slot, output, states, slot if named is None else named, **sizes, NAMES=named is not None, BLOCK=BLOCK,
        num_warps=WARPS,
    )  # fmt: skip
