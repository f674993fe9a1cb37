"""Launches at the limits of an architecture and one beyond them."""

import pytest

from gdnbench.codegen.arch import LaunchRequest

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
