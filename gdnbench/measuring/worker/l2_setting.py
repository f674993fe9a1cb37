"""Detects kernels that set a part of the L2 aside for themselves, which flushing between launches does not reach.

The limit of persisting lines belongs to the context, an access-policy window to a stream; both outlast the call that
set them (CUDA programming guide, L2 cache control). Not detected: a window as an attribute of a launch, which needs the
limit to keep anything, and settings that a kernel restores before its call returns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from cuda.bindings import driver

_LIMIT = driver.CUlimit.CU_LIMIT_PERSISTING_L2_CACHE_SIZE
_WINDOW = driver.CUstreamAttrID.CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW


@dataclass(frozen=True)
class _Setting:
    """Bytes of the L2 for persisting lines, and the stream's access-policy window."""

    persisting_bytes: int
    window_base: int
    window_bytes: int
    window_hit_ratio: float


class PersistingL2:
    """Compares a stream's L2 setting, in the current context, with that at construction, before kernels' import."""

    def __init__(self, stream: int) -> None:
        self._stream = stream
        _, self._window = driver.cuStreamGetAttribute(stream, _WINDOW)
        self._before = self._read()

    def changes(self) -> tuple[str, ...]:
        """Describes what has changed, empty if nothing has. Restores the setting and releases persisting lines."""
        now = self._read()
        if now is None or self._before is None or now == self._before:
            return ()
        changes = []
        if now.persisting_bytes != self._before.persisting_bytes:
            changes.append(f"{now.persisting_bytes:,} bytes of it for lines that persist")
        if replace(now, persisting_bytes=self._before.persisting_bytes) != self._before:
            changes.append(f"an access-policy window of {now.window_bytes:,} bytes on the stream")
        driver.cuStreamSetAttribute(self._stream, _WINDOW, self._window)
        driver.cuCtxResetPersistingL2Cache()
        driver.cuCtxSetLimit(_LIMIT, self._before.persisting_bytes)
        return tuple(changes)

    def _read(self) -> _Setting | None:
        """Returns the setting, or None if the GPU has none or has reported a fault."""
        refused, value = driver.cuStreamGetAttribute(self._stream, _WINDOW)
        unlimited, limit = driver.cuCtxGetLimit(_LIMIT)
        if refused != driver.CUresult.CUDA_SUCCESS or unlimited != driver.CUresult.CUDA_SUCCESS:
            return None
        window = value.accessPolicyWindow
        return _Setting(int(limit), int(window.base_ptr), int(window.num_bytes), float(window.hitRatio))
