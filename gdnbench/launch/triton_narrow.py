"""bf16 and fp8 in Triton's interpreter, which takes their bits for integers, or converts them wrongly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gdnbench.ptx.numbers import to_bfloat16, widen_bfloat16

_FP8 = {"fp8e4nv": torch.float8_e4m3fn, "fp8e5": torch.float8_e5m2}
NARROW = frozenset({"bf16", *_FP8})
"""Names of the types whose numbers are held as bits, and widened here."""


def compute_narrow_numbers() -> None:
    """Makes the interpreter compute with the numbers that bits stand for, and round them to nearest; once per process.

    A result in bf16 is computed in fp32 and rounded; sums are rounded once. What is larger than the largest fp8 becomes
    that, as by a GPU's `cvt.rn.satfinite`.
    """
    import triton.language as tl
    from triton._C.libtriton import ir
    from triton.runtime import interpreter

    builder: Any = interpreter.InterpreterBuilder
    cast, convert = builder.cast_impl, builder.create_fp_to_fp

    def cast_impl(self: Any, source: Any, target: Any) -> Any:
        before, after = source.dtype.scalar.name, target.scalar.name
        if before == after or NARROW.isdisjoint((before, after)):
            return cast(self, source, target)
        wide = widened(source.data, before)
        found = _narrowed(wide, after) if after in NARROW else wide.astype(interpreter._get_np_dtype(target.scalar))
        return interpreter.TensorHandle(found, target.scalar)

    def create_fp_to_fp(self: Any, source: Any, target: Any, rounding: Any) -> Any:
        is_nearest = rounding != ir.ROUNDING_MODE.RTZ
        known = NARROW | {"fp16", "fp32", "fp64"}
        if is_nearest and known.issuperset((source.dtype.scalar.name, target.scalar.name)):
            return cast_impl(self, source, target)
        return convert(self, source, target, rounding)

    def get_bf16(_self: Any, value: float) -> Any:
        return interpreter.TensorHandle(to_bfloat16(np.array([value], dtype=np.float32)), tl.bfloat16)

    def create_fma(_self: Any, x: Any, y: Any, z: Any) -> Any:
        a, b, c = (widened(each.data, each.dtype.scalar.name) for each in (x, y, z))
        found = a * b + c
        is_bf16 = z.dtype.scalar.name == "bf16"
        return interpreter.TensorHandle(to_bfloat16(found) if is_bf16 else found, z.dtype.scalar)

    for name in ("unary_op", "binary_op", "ternary_op"):
        setattr(builder, name, _of_numbers(getattr(builder, name)))
    builder.cast_impl, builder.create_fp_to_fp = cast_impl, create_fp_to_fp
    builder.create_fma, builder.get_bf16 = create_fma, get_bf16
    reductions: Any = interpreter.ReduceOps
    scans: Any = interpreter.ScanOps
    for owner, name in ((reductions, "sum"), (scans, "cumsum"), (scans, "cumprod")):
        setattr(owner, name, _over_numbers(getattr(owner, name)))


def _of_numbers(method: Callable[..., Any]) -> Callable[..., Any]:
    """A builder's method whose last argument is a function of arrays: of numbers instead of the bits of bf16."""
    import triton.language as tl
    from triton.runtime.interpreter import TensorHandle

    def apply(self: Any, *given: Any) -> Any:
        *operands, function = given
        kind = operands[-1].dtype.scalar
        if kind.name != "bf16" or function is np.where:
            return method(self, *given)
        found = function(*(widen_bfloat16(each.data) for each in operands))
        return TensorHandle(found, tl.int1) if found.dtype == bool else TensorHandle(to_bfloat16(found), kind)

    return apply


def _over_numbers(method: Callable[..., Any]) -> Callable[..., Any]:
    """A sum or product of the interpreter's over an axis, likewise."""
    import triton.language as tl
    from triton.runtime.interpreter import TensorHandle

    def of(tensor: Any, data: NDArray[Any], kind: Any) -> Any:
        is_block = tensor.type.is_block()
        return tl.core.tensor(TensorHandle(data, kind), tl.block_type(kind, tensor.shape) if is_block else kind)

    def apply(self: Any, given: Any) -> Any:
        if given.dtype.scalar.name != "bf16":
            return method(self, given)
        found = method(self, of(given, widen_bfloat16(given.handle.data), tl.float32))
        rounded = [
            of(each, to_bfloat16(each.handle.data), tl.bfloat16)
            for each in (found if isinstance(found, list) else [found])
        ]
        return rounded if isinstance(found, list) else rounded[0]

    return apply


def widened(data: NDArray[Any], kind: str) -> NDArray[Any]:
    """Numbers of a type, of which narrow ones are bits, as fp32; those of no narrow type as they are."""
    if kind == "bf16":
        return widen_bfloat16(data)
    if kind not in _FP8:
        return data
    bits = torch.from_numpy(np.ascontiguousarray(data).view(np.uint8))
    found: NDArray[np.float32] = bits.view(_FP8[kind]).float().numpy()
    return found.reshape(np.shape(data))


def _narrowed(values: NDArray[Any], kind: str) -> NDArray[Any]:
    single = np.asarray(values, dtype=np.float32)
    if kind == "bf16":
        return to_bfloat16(single)
    most = torch.finfo(_FP8[kind]).max
    clamped = torch.from_numpy(np.ascontiguousarray(single)).clamp(-most, most)  # NaN stays
    found: NDArray[np.uint8] = clamped.to(_FP8[kind]).view(torch.uint8).numpy()
    return found.reshape(np.shape(values))
