"""Triton's interpreter with a GPU's rounding and a GPU's matrix products."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gdnbench.launch.triton_narrow import NARROW, compute_narrow_numbers, widened
from gdnbench.nvfp4 import BLOCK, FP8, unpacked


@cache
def round_to_nearest() -> None:
    """Makes Triton's interpreter round as a GPU does; once per process.

    fp32 becomes the nearest bf16, as by `cvt.rn`: Triton 3.7 cuts the lower half off, which is up to twice as far from
    fp32's result and no kernel's doing. `tl.dot` multiplies the numbers that bf16 and fp8 stand for, and so does all
    other arithmetic, where Triton 3.7 takes bits of bf16 for integers; and of fp32 factors it takes what tensor cores
    read of them for tf32.
    `tl.dot_scaled`, which Triton 3.7's interpreter lacks, multiplies numbers in nvfp4 and adds up in fp32.
    """
    import triton.language as tl
    from triton._C.libtriton import ir
    from triton.runtime import interpreter

    builder: Any = interpreter.InterpreterBuilder
    dot = builder.create_dot

    def create_dot(self: Any, a: Any, b: Any, d: Any, input_precision: Any, max_num_imprecise_acc: Any) -> Any:
        is_tf32 = input_precision == ir.INPUT_PRECISION.TF32

        def factor(given: Any) -> Any:
            kind = given.dtype.scalar
            if kind.name in NARROW:
                return interpreter.TensorHandle(widened(given.data, kind.name), tl.float32)
            if kind == tl.float32 and is_tf32:
                return interpreter.TensorHandle(cut_to_tf32(given.data), tl.float32)
            return given

        return dot(self, factor(a), factor(b), d, input_precision, max_num_imprecise_acc)

    def create_dot_scaled(
        self: Any,
        a: Any,
        a_scale: Any,
        a_format: Any,
        b: Any,
        b_scale: Any,
        b_format: Any,
        fast_math: bool,
        a_packs_inner: bool,
        b_packs_inner: bool,
        d: Any,
    ) -> Any:
        del self, fast_math
        formats = {a_format, b_format, *(each.dtype.scalar for each in (a_scale, b_scale) if each is not None)}
        is_nvfp4 = None not in (a_scale, b_scale) and formats == {ir.ScaleDotElemTypeTY.E2M1, tl.float8e4nv}
        if not (is_nvfp4 and a_packs_inner and b_packs_inner and a.data.ndim == 2):
            raise NotImplementedError("tl.dot_scaled is interpreted of e2m1 packed along K with e4m3 scales alone")
        left, right = from_nvfp4(a.data, a_scale.data), from_nvfp4(b.data.T, b_scale.data)
        return interpreter.TensorHandle(left @ right.T + d.data, d.dtype.scalar)

    compute_narrow_numbers()
    builder.create_dot = create_dot
    builder.create_dot_scaled = create_dot_scaled


def cut_to_tf32(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """fp32 without the lower 13 bits, which tensor cores leave out for tf32 (Triton converts no operand itself)."""
    return (np.ascontiguousarray(values, dtype=np.float32).view(np.uint32) & 0xFFFF_E000).view(np.float32)


def from_nvfp4(packed: NDArray[np.uint8], scales: NDArray[np.uint8]) -> NDArray[np.float32]:
    """[rows, K], numbers of bytes [rows, K / 2] with the bits of their scales in e4m3 [rows, K / 16]; exact.

    Raises:
        ValueError: if there is not a scale for each 16 numbers.
    """
    if scales.shape[1] * BLOCK != 2 * packed.shape[1]:
        raise ValueError(
            f"{scales.shape[1]} scales for {2 * packed.shape[1]} numbers, and nvfp4 has one for each {BLOCK}"
        )
    bits, of = (torch.from_numpy(np.ascontiguousarray(each).view(np.uint8)) for each in (packed, scales))
    found: NDArray[np.float32] = unpacked(bits, of.view(FP8), torch.float32).numpy()
    return found
