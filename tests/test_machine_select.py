import pytest

from gdnbench.errors import ExitCode, GpuNotFoundError
from gdnbench.machine import select_gpu
from gdnbench.model import Gpu

H200 = Gpu(0, "NVIDIA H200", "GPU-8ffb366f-1", (9, 0))
OTHER_H200 = Gpu(1, "NVIDIA H200", "GPU-8ffb366f-2", (9, 0))
RTX = Gpu(2, "NVIDIA GeForce RTX 3090", "GPU-1111", (8, 6))
RTX_TI = Gpu(3, "NVIDIA GeForce RTX 3090 Ti", "GPU-2222", (8, 6))
H100 = Gpu(4, "NVIDIA H100 80GB HBM3", "GPU-3333", (9, 0))
ALL = (H200, OTHER_H200, RTX, RTX_TI, H100)


@pytest.mark.parametrize("wanted", ["rtx3090", "rtx 3090", "RTX-3090", "RTX3090", "3090", "GeForce RTX 3090", RTX.name])
def test_spellings_of_a_model(wanted):
    assert select_gpu(wanted, (RTX_TI, *ALL)) is RTX


@pytest.mark.parametrize(
    ("wanted", "gpu"),
    [
        ("auto", H200),
        (" AUTO ", H200),
        ("cpu", None),
        ("2", RTX),
        ("h200", H200),
        ("H200", H200),
        ("rtx 3090 ti", RTX_TI),
        ("h100", H100),
        ("NVIDIA H100 80GB HBM3", H100),
        ("GPU-1111", RTX),
        ("gpu-2222", RTX_TI),
        ("GPU-8ffb366f-2", OTHER_H200),
    ],
)
def test_selects(wanted, gpu):
    assert select_gpu(wanted, ALL) is gpu


def test_an_index_is_the_drivers_not_the_position():
    assert select_gpu("2", (RTX, H200)) is RTX
    with pytest.raises(GpuNotFoundError):
        select_gpu("1", (RTX, H200))


def test_auto_without_a_gpu_is_the_cpu():
    assert select_gpu("auto", ()) is None


@pytest.mark.parametrize("wanted", ["b200", "9", "h20", "200", "", "GPU-ffff", "nvidia", "-1"])
def test_names_what_is_there(wanted):
    with pytest.raises(GpuNotFoundError, match="0: NVIDIA H200, 1: NVIDIA H200, 2: NVIDIA GeForce RTX 3090") as caught:
        select_gpu(wanted, ALL)
    assert caught.value.exit_code is ExitCode.ENVIRONMENT
    assert "--gpu cpu" in caught.value.hint


def test_says_that_there_is_none():
    with pytest.raises(GpuNotFoundError, match="no NVIDIA GPU"):
        select_gpu("h200", ())
