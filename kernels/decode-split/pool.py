"""What kernels that know no slot to write leave to their callers."""

from __future__ import annotations

import torch


def write(pool: torch.Tensor, read_slot: torch.Tensor, write_slot: torch.Tensor, states: torch.Tensor) -> None:
    """Writes states [B, HV, V, K] where they go, in torch. Where nothing is written, slot 0 is, as it was."""
    written = (read_slot > 0) & (write_slot > 0)
    values = torch.where(written[:, None, None, None], states.to(pool.dtype), pool[:1])
    pool.index_copy_(0, torch.where(written, write_slot, 0).long(), values)
