"""The conditions of the L2 in which a step begins, and the part set aside for persisting lines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cuda.bindings import driver

_LIMIT = driver.CUlimit.CU_LIMIT_PERSISTING_L2_CACHE_SIZE
_MOST_SET_ASIDE = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE
_MOST_WINDOW = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE


def _value(answer: tuple[Any, ...]) -> int:
    status, value = answer
    if status != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"the driver does not tell of the L2: {status.name}")
    return int(value)


def most_set_aside() -> int:
    """Bytes of the L2 that the device can set aside for persisting lines; 0 if it cannot."""
    return _value(driver.cuDeviceGetAttribute(_MOST_SET_ASIDE, driver.CUdevice(0)))


def largest_window() -> int:
    """Most bytes of an access policy window."""
    return _value(driver.cuDeviceGetAttribute(_MOST_WINDOW, driver.CUdevice(0)))


@contextmanager
def set_aside(nbytes: int) -> Iterator[None]:
    """Sets a part of the L2 aside within; afterwards restores the limit and releases persisting lines."""
    before = _value(driver.cuCtxGetLimit(_LIMIT))
    (status,) = driver.cuCtxSetLimit(_LIMIT, nbytes)
    if status != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"no part of the L2 can be set aside: {status.name}")
    try:
        yield
    finally:
        driver.cuCtxResetPersistingL2Cache()
        driver.cuCtxSetLimit(_LIMIT, before)
