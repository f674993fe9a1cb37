"""What kernels that keep states beside the pool leave to their callers: reading and writing slots, in torch."""

from __future__ import annotations

import torch


def read_slots(slots: torch.Tensor, accepted: torch.Tensor) -> torch.Tensor:
    """The slot that each sequence reads, int32 [B]; that of padding is 0 or less, whatever its count is."""
    last = (accepted.long() - 1).clamp(0, slots.shape[1] - 1)
    return slots.gather(1, last[:, None])[:, 0]


def write(pool: torch.Tensor, slots: torch.Tensor, states: torch.Tensor) -> None:
    """Writes states [B, T, HV, V, K] to their slots [B, T]. For padding slot 0 is written as it was."""
    live = (slots > 0).flatten()[:, None, None, None]
    values = torch.where(live, states.flatten(0, 1).to(pool.dtype), pool[:1])
    pool.index_copy_(0, slots.clamp(min=0).flatten().long(), values)
