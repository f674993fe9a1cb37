"""Launches as Nsight Compute measured them, and the quantities that gdnbench computes from its metrics.

See "Metrics Reference" in Nsight Compute's Profiling Guide. Where ncu versions name a counter differently, all names
are listed, the newest first.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from gdnbench.model.workload import Workload

Value = float | str

GPU_NAME = "device__attribute_display_name"

# `--set full` collects two thousand metrics; half of them repeat others.
_REDUNDANT = re.compile(
    r"device__attribute_(?!display_name$)"  # device attributes
    r"|(\w+\.)?TriageCompute\."  # samples of the whole GPU, too coarse for a launch of microseconds
    r"|breakdown:|group:"  # lists of other metrics' names
    r"|derived_tempMetric|profiler__"  # ncu's own book-keeping
    r"|.*\.(min|max|sum)\.(pct_of|peak_sustained|per_cycle)"  # the average's ratio again, or constants
    r"|.*\.(min|max)\.per_second"
    r"|.*\.peak_sustained_elapsed"
)


def is_stored(name: str) -> bool:
    """Whether a metric is read from reports and stored."""
    return not _REDUNDANT.match(name)


@dataclass(frozen=True)
class Metric:
    """One metric of ncu."""

    name: str  # ncu's name, `gpu__time_duration.sum`
    unit: str  # ncu's base unit, `ns`, `byte`, `%`; empty for a plain number
    value: Value
    section: str = ""  # the report section that shows it, `SpeedOfLight`; empty if none does


@dataclass(frozen=True)
class LaunchProfile:
    """One profiled launch; `label`, `op` and `workload` are empty or None for a report that gdnbench did not make."""

    label: str
    op: str
    workload: Workload | None
    gpu: str  # the GPU's name as ncu writes it, `NVIDIA H200`
    arch: str
    function: str  # the GPU function, `gdn_decode_v4`
    launch: int  # index among the launches of this function in the report
    metrics: Mapping[str, Metric] = field(repr=False)
    source: str = ""

    @property
    def name(self) -> str:
        """The name in a table: the kernel's label, else the function."""
        return self.label or self.function

    def number(self, *names: str) -> float | None:
        """The first of these metrics in the report, in its base unit, NaN if ncu could not read it; None without."""
        for name in names:
            metric = self.metrics.get(name)
            if metric is not None and isinstance(metric.value, float):
                return metric.value
        return None

    def has_all(self, *names: str) -> bool:
        """Whether each of these metrics was read."""
        return all((value := self.number(name)) is not None and not math.isnan(value) for name in names)


@dataclass(frozen=True)
class NcuReport:
    """A report file and its launches, in order."""

    path: Path
    profiles: tuple[LaunchProfile, ...]


@dataclass(frozen=True)
class Counter:
    """A quantity of metrics: the first of `names` in a report, their `sum`, or the `ratio` of the first to the rest."""

    names: tuple[str, ...]
    scale: float = 1.0
    of: Literal["first", "sum", "ratio"] = "first"

    def __call__(self, profile: LaunchProfile) -> float | None:
        """Returns the value; None if the report lacks a metric, or the divisor is 0; NaN if ncu could not read one."""
        if self.of == "first":
            value = profile.number(*self.names)
            return None if value is None else value * self.scale
        values = [value for name in self.names if (value := profile.number(name)) is not None]
        if len(values) < len(self.names):
            return None
        if self.of == "sum":
            return sum(values)
        return values[0] / sum(values[1:]) if sum(values[1:]) else None


Better = Literal["lower", "higher", ""]

STALL = re.compile(r"smsp__average_warps_issue_stalled_(\w+)_per_issue_active\.ratio")

CYCLES = ("sm__cycles_elapsed.max", "sm__cycles_active.max", "sm__cycles_active.avg", "smsp__cycles_active.avg")
"""Cycles of the launch, the busiest SM, an average SM and an average scheduler: how the launch's time divides."""

OCCUPANCY_LIMITS = {
    "registers": "launch__occupancy_limit_registers",
    "shared memory": "launch__occupancy_limit_shared_mem",
    "warps": "launch__occupancy_limit_warps",
    "blocks": "launch__occupancy_limit_blocks",
}
"""Resident blocks per SM by the resource that limits them."""

LOCAL_SECTORS = "memory_l2_theoretical_sectors_local"


@dataclass(frozen=True)
class NcuQuantity:
    """One row of the table, or of a list of differences."""

    key: str  # its name in code, CSV and JSON, with the unit: `dram_read_bytes`
    title: str
    unit: str  # as shown: `µs`, `%`, `warps`; `B` and `B/s` get a prefix when shown; empty for a count
    group: str
    read: Counter  # computes it; None if the report lacks a counter, NaN if ncu could not read one
    better: Better = ""  # the better direction, all else equal; empty if neither is better


def _group(group: str, *rows: tuple[str, str, str, Counter | str, Better]) -> tuple[NcuQuantity, ...]:
    return tuple(
        NcuQuantity(key, title, unit, group, Counter((read,)) if isinstance(read, str) else read, better)
        for key, title, unit, read, better in rows
    )


_BYTES_PER_SECTOR = "smsp__sass_average_data_bytes_per_sector_mem_global_op_{}.ratio"
_PIPE = "sm__inst_executed_pipe_{}.avg.pct_of_peak_sustained_active"
# The GPC's cycles, as in ncu's "Elapsed Cycles" and "SM Frequency": the SMs' begin and end are less sharp, which in a
# launch of 3 µs reads the clock 5 % too high.
_CYCLES = Counter(("gpc__cycles_elapsed.max", "sm__cycles_elapsed.max"))
_FREQUENCY = Counter(("gpc__cycles_elapsed.avg.per_second", "sm__cycles_elapsed.avg.per_second"), scale=1e-6)
# In sectors, whatever unit the report names: 2025.3 writes "byte".
_EXCESS = ("derived__memory_l2_theoretical_sectors_global_excessive", "memory_l2_theoretical_sectors_global_excessive")
_CONFLICTS = ("derived__memory_l1_wavefronts_shared_excessive", "memory_l1_wavefronts_shared_excessive")
_SHARED = Counter(("launch__shared_mem_per_block_static", "launch__shared_mem_per_block_dynamic"), of="sum")
_SPILLS = Counter(("smsp__sass_inst_executed_op_local_ld.sum", "smsp__sass_inst_executed_op_local_st.sum"), of="sum")
_BANDWIDTH = Counter(("dram__bytes_read.sum.per_second", "dram__bytes_write.sum.per_second"), of="sum")
_TENSOR = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"
_FP32 = "smsp__sass_thread_inst_executed_op_{}_pred_on.avg.per_cycle_elapsed"
_UNFUSED = Counter((_FP32.format("fadd"), _FP32.format("fmul")), of="sum")
_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
_REQUESTS = "smsp__sass_inst_executed_op_shared_{}.sum"
_STSM = "smsp__inst_executed_op_shared_stsm.sum"  # counted by itself
_LOAD_WAYS = Counter((_WAVEFRONTS.format("ld"), _REQUESTS.format("ld")), of="ratio")
_STORE_WAYS = Counter((_WAVEFRONTS.format("st"), _REQUESTS.format("st"), _STSM), of="ratio")
_IMBALANCE = Counter(("sm__cycles_active.max", "sm__cycles_active.avg"), of="ratio")

QUANTITIES: tuple[NcuQuantity, ...] = (
    *_group(
        "time",
        ("duration_us", "duration", "µs", Counter(("gpu__time_duration.sum",), scale=0.001), "lower"),
        ("cycles", "cycles", "", _CYCLES, "lower"),
        ("sm_mhz", "SM clock", "MHz", _FREQUENCY, ""),
    ),
    *_group(
        "launch",
        ("grid_blocks", "grid", "blocks", "launch__grid_size", ""),
        ("block_threads", "block", "threads", "launch__block_size", ""),
        ("registers", "registers", "per thread", "launch__registers_per_thread", ""),
        ("shared_bytes", "shared memory", "B", _SHARED, ""),
        ("spill_requests", "spills to local memory", "", _SPILLS, "lower"),
        ("waves", "waves per SM", "", "launch__waves_per_multiprocessor", ""),
        ("sms", "SMs", "", "launch__sm_count", ""),
        *(
            (f"limit_{name.replace(' ', '_')}", f"blocks/SM, {name}", "", of, "")
            for name, of in OCCUPANCY_LIMITS.items()
        ),
    ),
    *_group(
        "warps",
        ("occupancy_limit_pct", "theoretical occupancy", "%", "sm__maximum_warps_per_active_cycle_pct", ""),
        ("occupancy_pct", "achieved occupancy", "%", "sm__warps_active.avg.pct_of_peak_sustained_active", "higher"),
        ("active_warps", "active warps/scheduler", "", "smsp__warps_active.avg.per_cycle_active", "higher"),
        ("eligible_warps", "eligible warps/scheduler", "", "smsp__warps_eligible.avg.per_cycle_active", "higher"),
        ("sm_imbalance", "busiest SM, of the average", "x", _IMBALANCE, "lower"),
    ),
    *_group(
        "instructions",
        (
            "issue_active_pct",
            "issue slots used",
            "%",
            Counter(("smsp__issue_active.avg.per_cycle_active",), scale=100),
            "higher",
        ),
        ("ipc", "IPC, active cycles", "", "sm__inst_executed.avg.per_cycle_active", "higher"),
        ("ipc_elapsed", "IPC, all cycles", "", "sm__inst_executed.avg.per_cycle_elapsed", "higher"),
        ("fused_fp32", "fused FP32/cycle", "", _FP32.format("ffma"), ""),
        ("unfused_fp32", "unfused FP32/cycle", "", _UNFUSED, ""),
        ("instructions", "warp instructions", "", "smsp__inst_executed.sum", "lower"),
    ),
    *_group(
        "memory",
        ("l1_hit_pct", "L1 hit rate", "%", "l1tex__t_sector_hit_rate.pct", "higher"),
        ("l2_hit_pct", "L2 hit rate", "%", "lts__t_sector_hit_rate.pct", "higher"),
        ("load_bytes_per_sector", "bytes used/sector, loads", "", _BYTES_PER_SECTOR.format("ld"), "higher"),
        ("store_bytes_per_sector", "bytes used/sector, stores", "", _BYTES_PER_SECTOR.format("st"), "higher"),
        ("global_sectors", "sectors to L2", "", "memory_l2_theoretical_sectors_global", "lower"),
        ("excess_sectors", "excess sectors", "", Counter(_EXCESS), "lower"),
        ("dram_read_bytes", "DRAM read", "B", "dram__bytes_read.sum", "lower"),
        ("dram_write_bytes", "DRAM written", "B", "dram__bytes_write.sum", "lower"),
        ("dram_bytes_per_s", "DRAM bandwidth", "B/s", _BANDWIDTH, "higher"),
        ("dram_pct", "DRAM, of its peak", "%", "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", "higher"),
        ("l2_pct", "L2, of its peak", "%", "lts__throughput.avg.pct_of_peak_sustained_elapsed", ""),
        ("l1_pct", "L1, of its peak", "%", "l1tex__throughput.avg.pct_of_peak_sustained_active", ""),
        ("shared_wavefronts", "shared wavefronts", "", "memory_l1_wavefronts_shared", "lower"),
        ("excess_wavefronts", "of bank conflicts", "", Counter(_CONFLICTS), "lower"),
        ("shared_load_ways", "wavefronts/shared load", "", _LOAD_WAYS, "lower"),
        ("shared_store_ways", "wavefronts/shared store", "", _STORE_WAYS, "lower"),
    ),
    *_group(
        "pipes",
        ("sm_pct", "SM, of its peak", "%", "sm__throughput.avg.pct_of_peak_sustained_elapsed", ""),
        ("fma_pct", "FMA", "%", _PIPE.format("fma"), ""),
        ("alu_pct", "ALU", "%", _PIPE.format("alu"), ""),
        ("xu_pct", "XU (MUFU, conversions)", "%", _PIPE.format("xu"), ""),
        ("lsu_pct", "LSU (loads, shuffles)", "%", _PIPE.format("lsu"), ""),
        ("tensor_pct", "tensor cores, cycles", "%", _TENSOR, ""),
        ("fp64_pct", "FP64", "%", _PIPE.format("fp64"), ""),
    ),
)

BY_KEY = {quantity.key: quantity for quantity in QUANTITIES}

_COUNTERS = frozenset(name for quantity in QUANTITIES for name in quantity.read.names) | {
    *CYCLES,
    *OCCUPANCY_LIMITS.values(),
    LOCAL_SECTORS,
}
_POSITIVE = frozenset({"launch__grid_size", "launch__block_size", "launch__sm_count"})
_MOST, _MOST_PCT = 2.0**64, 1000.0  # a counter has 64 bits; some slightly exceed their peak
_ABSENT = frozenset({"", "n/a", "no data"})  # ncu's texts for a missing number


def check_value(name: str, value: Value) -> None:
    """Raises ValueError for an impossible value of a counter that gdnbench reads; NaN, a failed read, is possible."""
    if name not in _COUNTERS and not STALL.fullmatch(name):
        return
    if isinstance(value, str):
        if value not in _ABSENT:
            raise ValueError(f"{name} is not a number, but {value[:40]!r}")
        return
    least, most = float(name in _POSITIVE), _MOST_PCT if "pct" in name else _MOST
    if not (math.isnan(value) or least <= value <= most):
        raise ValueError(f"{name} is {value:.6g}, and can be {least:g} to {most:g}")


STALL_MEANINGS: dict[str, str] = {
    "long_scoreboard": "waiting for global or local memory",
    "short_scoreboard": "waiting for shared memory, a shuffle or MUFU",
    "wait": "waiting out an instruction's fixed latency",
    "barrier": "waiting at a barrier for other warps",
    "selected": "issuing",
    "not_selected": "ready while another warp issues",
    "no_instruction": "waiting for instructions to be fetched",
    "imc_miss": "waiting for constants, such as kernel arguments",
    "math_pipe_throttle": "waiting for an arithmetic pipe",
    "mio_throttle": "waiting for the queue to shared memory, shuffles and MUFU",
    "lg_throttle": "waiting for the queue to global and local memory",
    "tex_throttle": "waiting for the queue to the texture unit",
    "drain": "waiting at the end for stores to leave",
    "membar": "waiting at a memory fence",
    "branch_resolving": "waiting for a branch's target",
    "dispatch_stall": "held back by the dispatcher",
    "sleeping": "asleep by its own wish",
    "gmma": "waiting for a warpgroup's matrix product",
    "misc": "other reasons",
}


def value_of(profile: LaunchProfile, key: str) -> float | None:
    """Returns a quantity by its key, None if the report lacks a counter, or NaN if ncu could not read it."""
    return BY_KEY[key].read(profile)


def stalls(profile: LaunchProfile) -> dict[str, float]:
    """Returns a warp's cycles in each state between two instructions, the largest first; `selected` is issuing.

    Their sum is the warp's latency per instruction, so a state's share of the sum is its share of a warp's time. States
    without cycles are left out. Returns {} if ncu could not read one of them, for then there is no sum.
    """
    values = _stall_values(profile)
    if any(map(math.isnan, values.values())):
        return {}
    found = ((reason, value) for reason, value in values.items() if value > 0)
    return dict(sorted(found, key=lambda pair: -pair[1]))


def unread_stalls(profile: LaunchProfile) -> tuple[str, ...]:
    """Returns the stall reasons for which ncu wrote NaN."""
    return tuple(reason for reason, value in _stall_values(profile).items() if math.isnan(value))


def _stall_values(profile: LaunchProfile) -> dict[str, float]:
    return {
        match.group(1): value
        for name in profile.metrics
        if (match := STALL.fullmatch(name)) and (value := profile.number(name)) is not None
    }
