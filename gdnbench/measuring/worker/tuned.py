"""The choices of Triton's autotuner for a case: it measures anew in each process, and its choice changes the code."""

from __future__ import annotations

import gc
import sys
from collections.abc import Collection, Sequence
from typing import Any


class TunerChoices:
    """The configs that `triton.autotune` chose in this process.

    A tuner can only be found among all objects, which takes some 50 ms, so it is searched once a kernel.
    """

    def __init__(self) -> None:
        self._tuners: dict[str, Sequence[Any]] = {}

    def of(self, kernel: str, launched: Collection[str]) -> tuple[str, ...]:
        """Name and config of each tuned function of `launched` in the kernel's last call, sorted.

        For example `chunk_fwd_kernel_o: BK: 64, num_warps: 4`.
        """
        if not launched:
            return ()
        if kernel not in self._tuners:
            self._tuners[kernel] = _find_tuners()
        told = ((_name(tuner), getattr(tuner, "best_config", None)) for tuner in self._tuners[kernel])
        return tuple(sorted({f"{name}: {config}" for name, config in told if name in launched and config is not None}))


def _find_tuners() -> list[Any]:
    module = sys.modules.get("triton.runtime.autotuner")
    if module is None:
        return []
    return [each for each in gc.get_objects() if type(each) is module.Autotuner]


def _name(tuner: Any) -> str:
    return str(getattr(getattr(tuner, "base_fn", None), "__name__", ""))
