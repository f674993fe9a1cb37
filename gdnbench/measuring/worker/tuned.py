"""What Triton's tuner took for the functions of a case: it measures anew in each process, and its choice is code."""

from __future__ import annotations

import gc
import sys
from collections.abc import Collection, Sequence
from typing import Any


class TunerChoices:
    """The configs that `triton.autotune` chose in this process.

    A tuner is known by its object alone, and looked for once a kernel: going over all objects takes some 50 ms.
    """

    def __init__(self) -> None:
        self._tuners: dict[str, Sequence[Any]] = {}

    def of(self, kernel: str, launched: Collection[str]) -> tuple[str, ...]:
        """What a case's tuned functions ran with in the last call of the case.

        Args:
            kernel: the kernel's name.
            launched: names of what a call launches.

        Returns:
            Of each function its name and config, `chunk_fwd_kernel_o: BK: 64, num_warps: 4`, sorted; none where nothing
            is tuned.
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
