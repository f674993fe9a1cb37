"""A value that outputs hold before a launch, so that an element which was never written shows."""

from __future__ import annotations

from collections.abc import Sequence

import torch

# A quiet NaN with a payload that no arithmetic produces: an element with these bits was never written, while a
# NaN with other bits was computed. GPUs produce 0x7fff… and CPUs 0x7fc0…. An e4m3 number has one NaN; what is no
# float has none, and gets a value that is unlikely.
_POISON: dict[torch.dtype, tuple[torch.dtype, int]] = {
    torch.bfloat16: (torch.int16, 0x7FC5),
    torch.float16: (torch.int16, 0x7EC5),
    torch.float32: (torch.int32, 0x7FC5A5A5),
    torch.float64: (torch.int64, 0x7FF8A5A5A5A5A5A5),
    torch.float8_e4m3fn: (torch.uint8, 0x7F),
    torch.uint8: (torch.uint8, 0xA5),
    torch.int8: (torch.int8, -0x5B),
    torch.int32: (torch.int32, -0x5A5A5A5B),
    torch.int64: (torch.int64, -0x5A5A5A5A5A5A5A5B),
    torch.bool: (torch.uint8, 0xA5),
}


def poison(tensors: Sequence[torch.Tensor]) -> None:
    """Fills tensors with the value that tells "never written"."""
    for tensor in tensors:
        bits, pattern = _POISON[tensor.dtype]
        tensor.view(bits).fill_(pattern)


def is_poison(tensor: torch.Tensor, expected: torch.Tensor | None = None) -> torch.Tensor:
    """Which elements were never written, as a boolean tensor.

    Args:
        tensor: what a kernel was to write.
        expected: what it should hold; in a type without a NaN, an element that should hold the very value that
            outputs are filled with is taken for written.
    """
    bits, pattern = _POISON[tensor.dtype]
    unwritten = tensor.contiguous().view(bits) == pattern
    if expected is None or tensor.dtype.is_floating_point or tensor.dtype is torch.bool:
        return unwritten
    return unwritten & (expected != pattern)
