"""Triton's interpreter with a GPU's rounding."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray


@cache
def round_to_nearest() -> None:
    """Makes Triton's interpreter round fp32 to the nearest bf16, as `cvt.rn` on a GPU does; once per process.

    Triton 3.7 cuts the lower half off, which is up to twice as far from fp32's result and no kernel's doing.
    """
    import triton.language as tl
    from triton.runtime import interpreter

    builder: Any = interpreter.InterpreterBuilder
    cast = builder.cast_impl

    def cast_impl(self: Any, source: Any, target: Any) -> Any:
        if (source.dtype.scalar, target.scalar) != (tl.float32, tl.bfloat16):
            return cast(self, source, target)
        return interpreter.TensorHandle(nearest_bf16(source.data), target.scalar)

    builder.cast_impl = cast_impl


def nearest_bf16(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """The bits of the nearest bf16 of each fp32, of the even one where two are as near; a NaN stays one."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(values), 0x7FFF, rounded.reshape(np.shape(values))).astype(np.uint16)
