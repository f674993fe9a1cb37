"""Triton's interpreter with a GPU's rounding, matrix products, bf16 and fp8, and patched once a launch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gdnbench.nvfp4 import BLOCK, FP8, unpacked
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
        result = _narrowed(wide, after) if after in NARROW else wide.astype(interpreter._get_np_dtype(target.scalar))
        return interpreter.TensorHandle(result, target.scalar)

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
        result = a * b + c
        is_bf16 = z.dtype.scalar.name == "bf16"
        return interpreter.TensorHandle(to_bfloat16(result) if is_bf16 else result, z.dtype.scalar)

    for name in ("unary_op", "binary_op", "ternary_op"):
        setattr(builder, name, _of_numbers(getattr(builder, name)))
    builder.cast_impl, builder.create_fp_to_fp = cast_impl, create_fp_to_fp
    builder.create_fma, builder.get_bf16 = create_fma, get_bf16
    reductions: Any = interpreter.ReduceOps
    scans: Any = interpreter.ScanOps
    for owner, name in ((reductions, "sum"), (scans, "cumsum"), (scans, "cumprod")):
        setattr(owner, name, _over_numbers(getattr(owner, name)))


def _of_numbers(method: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a builder's method apply its last argument, a function of arrays, to numbers, not to the bits of bf16."""
    import triton.language as tl
    from triton.runtime.interpreter import TensorHandle

    def apply(self: Any, *arguments: Any) -> Any:
        *operands, function = arguments
        kind = operands[-1].dtype.scalar
        if kind.name != "bf16" or function is np.where:
            return method(self, *arguments)
        result = function(*(widen_bfloat16(each.data) for each in operands))
        return TensorHandle(result, tl.int1) if result.dtype == bool else TensorHandle(to_bfloat16(result), kind)

    return apply


def _over_numbers(method: Callable[..., Any]) -> Callable[..., Any]:
    import triton.language as tl
    from triton.runtime.interpreter import TensorHandle

    def of(tensor: Any, data: NDArray[Any], kind: Any) -> Any:
        is_block = tensor.type.is_block()
        return tl.core.tensor(TensorHandle(data, kind), tl.block_type(kind, tensor.shape) if is_block else kind)

    def apply(self: Any, operand: Any) -> Any:
        if operand.dtype.scalar.name != "bf16":
            return method(self, operand)
        result = method(self, of(operand, widen_bfloat16(operand.handle.data), tl.float32))
        rounded = [
            of(each, to_bfloat16(each.handle.data), tl.bfloat16)
            for each in (result if isinstance(result, list) else [result])
        ]
        return rounded if isinstance(result, list) else rounded[0]

    return apply


def widened(data: NDArray[Any], kind: str) -> NDArray[Any]:
    """Returns numbers of a narrow type, which are bits, as fp32; others unchanged."""
    if kind == "bf16":
        return widen_bfloat16(data)
    if kind not in _FP8:
        return data
    bits = torch.from_numpy(np.ascontiguousarray(data).view(np.uint8))
    result: NDArray[np.float32] = bits.view(_FP8[kind]).float().numpy()
    return result.reshape(np.shape(data))


def _narrowed(values: NDArray[Any], kind: str) -> NDArray[Any]:
    single = np.asarray(values, dtype=np.float32)
    if kind == "bf16":
        return to_bfloat16(single)
    most = torch.finfo(_FP8[kind]).max
    clamped = torch.from_numpy(np.ascontiguousarray(single)).clamp(-most, most)  # NaN stays
    result: NDArray[np.uint8] = clamped.to(_FP8[kind]).view(torch.uint8).numpy()
    return result.reshape(np.shape(values))


@cache
def round_to_nearest() -> None:
    """Makes Triton's interpreter round as a GPU does; once per process.

    fp32 becomes the nearest bf16, as by `cvt.rn`: Triton 3.7 cuts the lower half off, which is up to twice as far from
    fp32's result and no kernel's doing. `tl.dot` multiplies the numbers that bf16 and fp8 stand for, and so does all
    other arithmetic, where Triton 3.7 takes bits of bf16 for integers; and of fp32 factors it takes what tensor cores
    read of them for tf32.
    `tl.dot_scaled`, which Triton 3.7's interpreter lacks, multiplies numbers in nvfp4 and adds up in fp32. Inline PTX
    goes to the interpreter of PTX.
    """
    import triton.language as tl
    from triton._C.libtriton import ir
    from triton.runtime import interpreter

    builder: Any = interpreter.InterpreterBuilder
    dot = builder.create_dot

    def create_dot(self: Any, a: Any, b: Any, d: Any, input_precision: Any, max_num_imprecise_acc: Any) -> Any:
        is_tf32 = input_precision == ir.INPUT_PRECISION.TF32

        def factor(operand: Any) -> Any:
            kind = operand.dtype.scalar
            if kind.name in NARROW:
                return interpreter.TensorHandle(widened(operand.data, kind.name), tl.float32)
            if kind == tl.float32 and is_tf32:
                return interpreter.TensorHandle(cut_to_tf32(operand.data), tl.float32)
            return operand

        return dot(self, factor(a), factor(b), d, input_precision, max_num_imprecise_acc)

    def create_dot_scaled(_self: Any, *arguments: Any) -> Any:
        a, a_scale, a_format, b, b_scale, b_format, _fast_math, a_packs_inner, b_packs_inner, d = arguments
        formats = {a_format, b_format, *(each.dtype.scalar for each in (a_scale, b_scale) if each is not None)}
        is_nvfp4 = None not in (a_scale, b_scale) and formats == {ir.ScaleDotElemTypeTY.E2M1, tl.float8e4nv}
        if not (is_nvfp4 and a_packs_inner and b_packs_inner and a.data.ndim == 2):
            raise NotImplementedError("tl.dot_scaled is interpreted of e2m1 packed along K with e4m3 scales alone")
        left, right = from_nvfp4(a.data, a_scale.data), from_nvfp4(b.data.T, b_scale.data)
        return interpreter.TensorHandle(left @ right.T + d.data, d.dtype.scalar)

    def create_inline_asm(_self: Any, *call: Any) -> Any:
        from gdnbench.launch.triton_assembly import interpret_inline_asm  # imported here: few kernels have any

        return interpret_inline_asm(*call)

    compute_narrow_numbers()
    builder.create_inline_asm = create_inline_asm
    builder.create_dot = create_dot
    builder.create_dot_scaled = create_dot_scaled


def cut_to_tf32(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Cuts the lower 13 bits of fp32, which tensor cores leave out for tf32 (Triton converts no operand itself)."""
    return (np.ascontiguousarray(values, dtype=np.float32).view(np.uint32) & 0xFFFF_E000).view(np.float32)


def from_nvfp4(packed: NDArray[np.uint8], scales: NDArray[np.uint8]) -> NDArray[np.float32]:
    """The exact [rows, K] of bytes [rows, K / 2] and bits of e4m3 scales [rows, K / 16]; ValueError for others."""
    count = 2 * packed.shape[1]
    if scales.shape[1] * BLOCK != count:
        raise ValueError(f"{scales.shape[1]} scales for {count} numbers, and nvfp4 has one for each {BLOCK}")
    bits, of = (torch.from_numpy(np.ascontiguousarray(each).view(np.uint8)) for each in (packed, scales))
    result: NDArray[np.float32] = unpacked(bits, of.view(FP8), torch.float32).numpy()
    return result


@contextmanager
def language_patched_once() -> Iterator[None]:
    """Has Triton's interpreter patch its language once for each module: at each call of a helper takes a fourth longer.

    Triton 3.7 restores it at the end of a launch alone.
    """
    from triton.runtime import interpreter

    patch, scopes = interpreter._patch_lang, dict[int, Any]()

    def patch_first(function: Any) -> Any:
        key = id(function.__globals__)
        scopes[key] = interpreter._LangPatchScope() if key in scopes else patch(function)
        return scopes[key]

    interpreter._patch_lang = patch_first
    try:
        yield
    finally:
        interpreter._patch_lang = patch
