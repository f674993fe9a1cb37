"""What each launch of an op's kernels takes on a GPU, cold, by torch's profiler: a look at steps, without intervals.

`python -m benchmarks.launch_times prefill prefill-v4,prefill-v5 lengths=8192 never,mixed-heads` prints CSV: the median
over repetitions of the time from the first launch's begin to the last one's end, and of each launch, in µs.
`prefill-steps.csv` has what an H100 printed while prefill-v5 was written. `run` says which kernel is faster.
"""

from __future__ import annotations

import argparse
import statistics

import torch

from gdnbench.catalog.catalog import load_catalog
from gdnbench.catalog.request import parse_workloads
from gdnbench.catalog.select import select_variants
from gdnbench.launch.bind import Launcher, bind
from gdnbench.launch.numerics import load_numerics
from gdnbench.launch.workspace import Workspace

FLUSHED_BYTES = 512 << 20
WARM_UPS = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("op")
    parser.add_argument("kernels")
    parser.add_argument("shape")
    parser.add_argument("profiles")
    parser.add_argument("--repetitions", type=int, default=10)
    typed = parser.parse_args()
    catalog = load_catalog()
    op = catalog.ops[typed.op]
    numerics = load_numerics(op, catalog.op_folders[op.name])
    print("workload,kernel,whole_us,launches_us")
    for workload in parse_workloads(op, typed.shape):
        for profile in typed.profiles.split(","):
            workspace = Workspace.make(op, numerics, workload, seed=7, device="cuda", scenario=profile)
            for variant in select_variants(catalog, op.name, typed.kernels):
                launcher = bind(catalog.entries[variant.kernel], variant, workspace)
                whole, launches = median_times_us(launcher, typed.repetitions)
                each = " ".join(f"{us:.2f}" for us in launches)
                print(f"{workload.at(profile)},{variant.label},{whole:.2f},{each}", flush=True)


def median_times_us(launcher: Launcher, repetitions: int) -> tuple[float, list[float]]:
    """Returns the median time of a call whose tensors are not in the L2, and those of its launches, in µs."""
    flushed = torch.empty(FLUSHED_BYTES, dtype=torch.uint8, device="cuda")
    for _ in range(WARM_UPS):
        launcher()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        for _ in range(repetitions):
            flushed.fill_(1)
            launcher()
        torch.cuda.synchronize()
    calls: list[list[tuple[float, float]]] = []
    for event in sorted(profiler.events(), key=lambda event: event.time_range.start):
        if "FillFunctor" in event.name:
            calls.append([])
        elif calls and event.device_type.name == "CUDA":
            calls[-1].append((event.time_range.start, event.time_range.end))
    wholes = [call[-1][1] - call[0][0] for call in calls]
    each = zip(*([end - start for start, end in call] for call in calls), strict=True)
    return statistics.median(wholes), [statistics.median(times) for times in each]


if __name__ == "__main__":
    main()
