"""Runs a float32 reference in float64; imports torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_NARROW = {torch.float32, torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2}
_CASTS = {torch.Tensor.float, torch.Tensor.half, torch.Tensor.bfloat16}
_BITS = {torch.Tensor.view}  # its type says how to read bits; it does not convert


class _Widened(TorchFunctionMode):
    """Replaces each narrower floating-point type that a function asks for by float64."""

    def __torch_function__(
        self, function: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if function in _CASTS:
            return args[0].double()
        if function not in _BITS:
            args = [torch.float64 if _is_narrow(each) else each for each in args]
            kwargs = {name: torch.float64 if _is_narrow(each) else each for name, each in kwargs.items()}
        return function(*args, **kwargs)


def _is_narrow(value: Any) -> bool:
    return isinstance(value, torch.dtype) and value in _NARROW


def in_float64(function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    """Runs a function with every float a float64: inputs, and what it converts to, makes or returns.

    Floating-point tensors in `arguments` are widened, which is exact. A function that checks the types of its inputs,
    and so fails on float64, is run unchanged.
    """
    wide = [each.double() if _is_floating(each) else each for each in arguments]
    usual = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float64)
        with _Widened(), torch.no_grad():
            return _widened(function(*wide))
    except (AssertionError, RuntimeError, TypeError, ValueError):
        torch.set_default_dtype(usual)
        with torch.no_grad():
            return _widened(function(*arguments))
    finally:
        torch.set_default_dtype(usual)


def _is_floating(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _widened(found: Any) -> Any:
    if isinstance(found, Mapping):
        return {name: _widened(each) for name, each in found.items()}
    if isinstance(found, (tuple, list)):
        return tuple(_widened(each) for each in found)
    return found.double() if _is_floating(found) else found
