"""Occupancy worked out by hand from the published limits; blocks and loops of listings written by hand."""

import pytest
from schedule_data import EXIT, sass

from gdnbench.codegen.arch import LaunchRequest, limits_of, occupancy
from gdnbench.codegen.schedule import read_schedule
from gdnbench.errors import UsageError
from gdnbench.inspect.loops import find_loops, read_blocks


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


@pytest.mark.parametrize("arch", ["sm_75", "sm_9", "hopper", ""])
def test_what_is_not_known_is_refused_and_what_is_is_said(arch):
    with pytest.raises(UsageError) as caught:
        limits_of(arch)
    assert "sm_80, sm_86, sm_89, sm_90, sm_100, sm_120" in caught.value.hint


ARCHS = ("sm_90", "sm_100")
SMALL = LaunchRequest(grid=(1,), threads=32)
SHARED = 227 * 1024

# What a launch asks for, the largest value that CUDA takes of it, and a word of the refusal of one more.
LIMITS = [
    (lambda count: LaunchRequest((count,), 32), 2**31 - 1, "x takes 1 to 2,147,483,647"),
    (lambda count: LaunchRequest((1, count), 32), 65_535, "y takes 1 to 65,535"),
    (lambda count: LaunchRequest((1, 1, count), 32), 65_535, "z takes 1 to 65,535"),
    (lambda count: LaunchRequest((4,) * count, 32), 3, "has 4 axes"),
    (lambda count: LaunchRequest((1,), count), 1024, "1,025 threads"),
    (lambda count: LaunchRequest((1,), 32, shared_bytes=count), SHARED, f"at most {SHARED:,}"),
    (lambda count: LaunchRequest((1,), count, most_threads=128), 128, "__launch_bounds__ are 128"),
    (lambda count: LaunchRequest((1,), count, required_threads=128), 128, "blocks of 128"),
    (lambda count: LaunchRequest((count,), 32, cluster=(count, 1, 1)), 8, "a cluster of 9 x 1 x 1"),
    (lambda count: LaunchRequest((12, count), 32, cluster=(2, 4, 1)), 4, "along y they make no whole clusters of 4"),
    (lambda count: LaunchRequest((1,), 1024, registers=count), 64, "65 registers"),
]


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(("asking", "most", "told"), LIMITS, ids=[told for _, _, told in LIMITS])
def test_the_last_launch_that_is_taken_and_the_first_that_is_refused(asking, most, told, arch):
    assert asking(most).refusal(arch) == ""
    assert told in asking(most + 1).refusal(arch)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("count", [0, -1])
def test_nothing_is_no_launch(count, arch):
    for asking in (
        lambda n: LaunchRequest((n,), 32),
        lambda n: LaunchRequest((2, n), 32),
        lambda n: LaunchRequest((1,), n),
    ):
        assert "takes 1 to" in asking(count).refusal(arch)


def test_triton_passes_over_an_empty_grid_alone():
    assert LaunchRequest((0, 3), 32, is_triton=True).refusal("sm_90") == ""
    assert LaunchRequest((-1, 3), 32, is_triton=True).refusal("sm_90")


@pytest.mark.parametrize(("arch", "kib"), [("sm_80", 163), ("sm_86", 99), ("sm_120", 99), ("sm_90a", 227)])
def test_shared_memory_is_that_of_the_architecture(arch, kib):
    assert LaunchRequest((1,), 32, shared_bytes=kib << 10).refusal(arch) == ""
    assert arch in LaunchRequest((1,), 32, shared_bytes=(kib << 10) + 1).refusal(arch)


def test_of_an_architecture_that_is_not_known_the_limits_of_all_hold():
    assert LaunchRequest((1,), 32, shared_bytes=1 << 20).refusal("sm_107") == ""
    assert LaunchRequest((1, 1 << 16), 32).refusal("sm_107")


ADD = "FADD R0, R4, R5"


def _code(*lines):
    return read_schedule(sass(*lines)).code


def _blocks(*lines):
    return read_blocks([one.instruction for one in _code(*lines)])


def _shape(*lines):
    return [(block.places.start, len(block.places), block.successors) for block in _blocks(*lines)]


def _loops(*lines):
    return [
        (loop.header, sorted(loop.blocks), loop.latches, loop.shortest, loop.longest)
        for loop in find_loops(_blocks(*lines))
    ]


CODE = {
    # of each listing its blocks: where each begins, how many instructions it has, and what may follow
    "straight code is one block without its padding": ((ADD, EXIT, "BRA 0x20", "NOP", "NOP"), [(0, 2, ())]),
    "a predicated branch goes on and an unconditional one does not": (
        ("@P0 BRA 0x30", ADD, "BRA 0x40", ADD, EXIT), [(0, 1, (2, 1)), (1, 2, (3,)), (3, 1, (3,)), (4, 1, ())],
    ),
    **{
        f"a condition before or behind the opcode: {branch}": (
            (branch, EXIT, EXIT), [(0, 1, (2, 1)), (1, 1, ()), (2, 1, ())],
        )
        for branch in ("BRA.U UP0, 0x20", "BRA.DIV UR4, 0x20", "@!P3 BRA 0x20")
    },
    "a predicated exit goes on": (("@P0 EXIT", ADD, EXIT), [(0, 1, (1,)), (1, 2, ())]),
    "a return is followed nowhere and a call to both": (
        (ADD, "CALL.REL.NOINC 0x30", EXIT, ADD, "RET.REL.NODEC R2 0x0"), [(0, 2, (2, 1)), (2, 1, ()), (3, 2, ())],
    ),
    "threads that part meet where BSSY says": (
        ("BSSY B0, 0x50", "@P0 BRA 0x40", ADD, "BSYNC B0", "BSYNC B0", ADD, EXIT),
        [(0, 2, (2, 1)), (2, 2, (3,)), (4, 1, (3,)), (5, 2, ())],
    ),
    "a computed branch goes nowhere known": (("BRX R4 -0x10", EXIT), [(0, 1, ()), (1, 1, ())]),
    "a loop without a way out": ((ADD, ADD, ADD, "BRA 0x10"), [(0, 1, (1,)), (1, 3, (1,))]),
}  # fmt: skip
LOOPS = {
    # header, blocks, blocks that go back, and the shortest and longest trip in instructions
    "a loop without a way out": (CODE["a loop without a way out"][0], [(1, [1], (1,), 3, 3)]),
    "a trip is as long as the way through the loop": (
        (ADD, "@P0 BRA 0x40", ADD, ADD, ADD, "@P1 BRA 0x0", EXIT), [(0, [0, 1, 2], (2,), 4, 6)],
    ),
    "a loop in a loop counts once in a trip of the outer": (
        (ADD, ADD, "@P0 BRA 0x10", ADD, "@P1 BRA 0x0", EXIT), [(0, [0, 1, 2], (2,), 5, 5), (1, [1], (1,), 2, 2)],
    ),
    "two branches back to one place are one loop": (
        (ADD, "@P0 BRA 0x0", ADD, "@P1 BRA 0x0", EXIT), [(0, [0, 1], (0, 1), 2, 4)],
    ),
    "a retry out of line that goes back into the way is no loop of it": (
        ("@!P0 BRA 0x30", ADD, EXIT, ADD, "@!P0 BRA 0x30", "BRA 0x10"), [(2, [2], (2,), 2, 2)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CODE)
def test_code_has_these_blocks(name):
    lines, blocks = CODE[name]
    assert _shape(*lines) == blocks


@pytest.mark.parametrize("name", CODE | LOOPS)
def test_code_has_these_loops(name):
    lines, loops = LOOPS.get(name) or (CODE[name][0], [])
    assert _loops(*lines) == loops


def test_no_code_has_no_blocks():
    assert read_blocks([]) == ()
    assert find_loops([]) == ()
