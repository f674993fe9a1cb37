"""The global variables of loaded device code, by name."""

from __future__ import annotations

from typing import Any

import numpy as np
from cuda.bindings import driver

from gdnbench.errors import ProfilerError


def read_global(code: Any, name: str) -> bytes:
    """What a global holds.

    Args:
        code: cuda-core's `ObjectCode`.
        name: an `extern "C"` global.

    Raises:
        ProfilerError: if there is none of this name, or the driver refuses.
    """
    address, size = _find(code, name)
    content = np.empty(size, dtype=np.uint8)
    _check(driver.cuMemcpyDtoH(content.ctypes.data, address, size), name)
    return content.tobytes()


def write_global(code: Any, name: str, content: bytes) -> None:
    """Sets a global.

    Raises:
        ProfilerError: if there is none of this name and size, or the driver refuses.
    """
    address, size = _find(code, name)
    if size != len(content):
        raise ProfilerError(f"the kernel's {name} has {size} bytes, not {len(content)}")
    source = np.frombuffer(content, dtype=np.uint8)
    _check(driver.cuMemcpyHtoD(address, source.ctypes.data, size), name)


def _find(code: Any, name: str) -> tuple[Any, int]:
    address, size = _check(driver.cuLibraryGetGlobal(driver.CUlibrary(int(code.handle)), name.encode()), name)
    return address, size


def _check(answer: tuple[Any, ...], name: str) -> tuple[Any, ...]:
    status, *rest = answer
    if status != driver.CUresult.CUDA_SUCCESS:
        raise ProfilerError(f"the kernel's {name} cannot be reached: {status.name}")
    return tuple(rest)
