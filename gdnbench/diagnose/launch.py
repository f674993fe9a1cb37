"""How a kernel lies over a GPU: the same numbers, whether a profiler counted them or a compiler implies them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gdnbench.binary.limits import SUB_PARTITIONS, WARP_SIZE
from gdnbench.inspection.anatomy import Anatomy
from gdnbench.profilers.ncu.counters import OCCUPANCY_LIMITS
from gdnbench.profilers.ncu.profile import Profile
from gdnbench.profilers.ncu.quantities import value_of
from gdnbench.wording import plural


@dataclass(frozen=True)
class Launch:
    """A grid on a GPU.

    Attributes:
        blocks: of the grid.
        threads: per block.
        sms: of the GPU.
        blocks_per_sm: what an SM holds at once.
        limited_by: what keeps it from holding more: `registers`, `shared memory`, `warps`, `blocks`, or several.
        registers: per thread.
    """

    blocks: int
    threads: int
    sms: int
    blocks_per_sm: int
    limited_by: str
    registers: int

    @property
    def warps_per_block(self) -> int:
        """Warps of one block."""
        return math.ceil(self.threads / WARP_SIZE)

    @property
    def warps(self) -> int:
        """Warps of the whole grid."""
        return self.blocks * self.warps_per_block

    @property
    def resident_warps(self) -> int:
        """Warps that are in flight at once, over the whole GPU."""
        return min(self.blocks, self.sms * self.blocks_per_sm) * self.warps_per_block

    @property
    def schedulers(self) -> int:
        """Warp schedulers of the GPU: four an SM on all GPUs since Volta."""
        return self.sms * SUB_PARTITIONS

    @property
    def waves(self) -> float:
        """How often the grid fills the GPU."""
        return self.blocks / (self.sms * self.blocks_per_sm)

    @property
    def used_sms(self) -> int:
        """SMs that get a block."""
        return min(self.blocks, self.sms)

    @property
    def missing_warps(self) -> float:
        """The share of schedulers that no warp could be found for, were warps spread evenly; 0 if there are enough."""
        return max(0.0, 1 - self.resident_warps / self.schedulers)

    def __str__(self) -> str:
        return f"{plural(self.blocks, 'block')} of {plural(self.warps_per_block, 'warp')} on {self.sms} SMs"


def launch_of_profile(profile: Profile) -> Launch | None:
    """The launch that a profiler saw; None where its report lacks a number."""
    found = {name: profile.number(metric) or 0.0 for name, metric in OCCUPANCY_LIMITS.items()}
    limits = {name: value for name, value in found.items() if value >= 1}  # which NaN is not
    keys = ("grid_blocks", "block_threads", "sms", "registers")
    values = [value for key in keys if (value := value_of(profile, key)) is not None and math.isfinite(value)]
    if len(values) < len(keys) or len(limits) < len(found):
        return None
    blocks, threads, sms, registers = map(int, values)
    limiting = min(limits, key=lambda name: limits[name])
    return Launch(blocks, threads, sms, int(limits[limiting]), limiting, registers)


def launch_of_anatomy(anatomy: Anatomy) -> Launch | None:
    """The launch that a build implies; None where the GPU's size is unknown or not one block fits."""
    if anatomy.device is None or not anatomy.occupancy.blocks:
        return None
    return Launch(
        blocks=anatomy.blocks,
        threads=anatomy.threads,
        sms=anatomy.device.sms,
        blocks_per_sm=anatomy.occupancy.blocks,
        limited_by=anatomy.occupancy.limited_by.replace(", ", " and "),
        registers=anatomy.resources.registers,
    )
