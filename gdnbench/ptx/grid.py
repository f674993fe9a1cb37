"""The threads of a launch."""

from __future__ import annotations

from dataclasses import dataclass

WARP = 32  # lanes
BARRIERS = 16  # of a block, in hardware


@dataclass(frozen=True)
class LaunchGrid:
    """The threads of a launch: `blocks` along x, y and z, `threads` of a block along x, its dynamic `shared_bytes`."""

    blocks: tuple[int, int, int]
    threads: int
    shared_bytes: int = 0

    @property
    def count(self) -> int:
        """Blocks in all."""
        return self.blocks[0] * self.blocks[1] * self.blocks[2]
