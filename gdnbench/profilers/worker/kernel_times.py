"""How long the GPU functions of a launch ran, as Proton's CUPTI backend records it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from gdnbench.launch import Launcher
from gdnbench.profilers.proton.kernel_trace import durations_us

_LAUNCHES = 40


def record_kernel_times(launchers: Sequence[Launcher]) -> tuple[dict[str, list[float]], tuple[str, ...]]:
    """Records cold launches, one placement after the other.

    Returns:
        Durations in microseconds by function, one a launch, and no note; or nothing, and a note that says why.
    """
    import triton.profiler as proton

    # Torch's fill is a GPU function, unlike the driver's, so the trace shows where one launch ends and the next begins.
    flush = torch.empty(2 * torch.cuda.get_device_properties(0).L2_cache_size, dtype=torch.uint8, device="cuda")
    with TemporaryDirectory(prefix="gdnbench-proton-") as folder:
        base = Path(folder) / "kernels"
        try:
            proton.start(str(base), data="trace", backend="cupti")
            try:
                for number in range(_LAUNCHES):
                    flush.zero_()
                    launchers[number % len(launchers)]()
                torch.cuda.synchronize()
            finally:
                proton.finalize()
            return durations_us(base.with_name("kernels.chrome_trace"), _LAUNCHES), ()
        except Exception as error:
            # CUPTI serves one subscriber: in a process that another profiler watches it refuses.
            return {}, (f"no kernel times by CUPTI: {type(error).__name__}: {error}".partition("\n")[0],)
