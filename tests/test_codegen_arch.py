"""Occupancy worked out by hand from the published limits, as `cuda_occupancy.h` works it out."""

import pytest

from gdnbench.codegen.arch import limits_of, occupancy
from gdnbench.errors import UsageError


def _of(arch, threads, registers, shared=0):
    found = occupancy(limits_of(arch), threads=threads, registers=registers, shared_bytes=shared)
    return found.blocks, found.warps, round(found.percent, 1), found.limited_by


@pytest.mark.parametrize(
    ("launch", "expected"),
    [
        # 168 * 32 = 5376 = 21 * 256 a warp; 16384 // 5376 = 3 warps in each of 4 parts: 12; 12 // 8 = 1 block.
        (("sm_90", 256, 168), (1, 8, 12.5, "registers")),
        # 65 * 32 = 2080, rounded up to 2304; 16384 // 2304 = 7; 28 warps; 28 // 8 = 3 blocks.
        (("sm_90", 256, 65), (3, 24, 37.5, "registers")),
        # 64 * 32 = 2048; 8 warps in each part: 32; 4 blocks of 8.
        (("sm_90", 256, 64), (4, 32, 50.0, "registers")),
        # 32 registers fill the file with exactly the 64 warps that there are.
        (("sm_90", 256, 32), (8, 64, 100.0, "warps, registers")),
        # One warp a block: 32 blocks of 64 warps.
        (("sm_90", 32, 16), (32, 32, 50.0, "blocks")),
        # 48 warps hold one block of 32.
        (("sm_86", 1024, 32), (1, 32, 66.7, "warps")),
        (("sm_86", 32, 16), (16, 16, 33.3, "blocks")),
        (("sm_89", 32, 16), (24, 24, 50.0, "blocks")),
        (("sm_120", 32, 16), (24, 24, 50.0, "blocks")),
        # 17536 + 1024 = 18560 = 145 * 128; 233472 // 18560 = 12.
        (("sm_90", 32, 96, 17536), (12, 12, 18.8, "shared memory")),
        # 49152 + 1024 = 50176; 102400 // 50176 = 2.
        (("sm_86", 128, 32, 49152), (2, 8, 16.7, "shared memory")),
        (("sm_80", 128, 32, 163 * 1024), (1, 4, 6.2, "shared memory")),
        (("sm_80", 128, 32, 163 * 1024 + 1), (0, 0, 0.0, "shared memory")),
        # 9 warps count as 12 when the launch is checked: 12 * 8192 > 65536.
        (("sm_90", 288, 255), (0, 0, 0.0, "registers")),
        (("sm_90", 1025, 16), (0, 0, 0.0, "threads")),
        (("sm_90", 33, 0), (32, 64, 100.0, "warps, blocks")),
    ],
)
def test_by_hand(launch, expected):
    assert _of(*launch) == expected


def test_what_a_block_may_use_of_shared_memory():
    kib = [limits_of(arch).block_shared_bytes // 1024 for arch in ("sm_80", "sm_86", "sm_90", "sm_100")]
    assert kib == [163, 99, 227, 227]  # "maximum amount of shared memory per thread block" of the guide


def test_an_architecture_has_the_limits_of_its_capability():
    assert limits_of("sm_90a") == limits_of("sm_90")


@pytest.mark.parametrize("arch", ["sm_75", "sm_9", "hopper", ""])
def test_what_is_not_known_is_refused_and_what_is_is_said(arch):
    with pytest.raises(UsageError) as caught:
        limits_of(arch)
    assert "sm_80, sm_86, sm_89, sm_90, sm_100, sm_120" in caught.value.hint
