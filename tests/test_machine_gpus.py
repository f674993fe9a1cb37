"""GPUs as NVML tells of them, those that CUDA may use, and the one that a `--gpu` means."""

import subprocess
import sys

import pynvml
import pytest
from fake_nvml import H200 as NVML_H200
from fake_nvml import REFUSED, RTX_3090, FakeNvml

from gdnbench.errors import ExitCode, GpuNotFoundError
from gdnbench.machine.gpus import list_gpus, select_gpu
from gdnbench.model.gpu import Gpu

SECOND = NVML_H200 | {"UUID": "GPU-8ffb9999-0000-0000-0000-000000000000"}


@pytest.fixture
def install(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def install(*devices, **options):
        fake = FakeNvml(*devices, **options)
        monkeypatch.setitem(sys.modules, "pynvml", fake)
        return fake

    return install


def test_reads_an_h200(install):
    fake = install(NVML_H200)
    (gpu,) = list_gpus()
    assert (gpu.index, gpu.name, gpu.arch, gpu.slug) == (0, "NVIDIA H200", "sm_90", "h200")
    assert gpu.sms == 132
    assert gpu.memory_bytes == 150754820096
    assert gpu.l2_bytes == 0
    assert fake.open == 0


@pytest.mark.parametrize(
    ("capability", "cores", "sms"), [((8, 0), 6912, 108), ((10, 0), 18944, 148), ((99, 0), 1000, 0)]
)
def test_counts_sms_by_capability(install, capability, cores, sms):
    install(NVML_H200 | {"CudaComputeCapability": capability, "NumGpuCores": cores})
    assert list_gpus()[0].sms == sms


def test_no_driver_is_no_gpu(install):
    install(driver=False)
    assert list_gpus() == ()


def test_what_is_refused_is_unknown(install):
    install(NVML_H200 | {"Name": REFUSED, "NumGpuCores": REFUSED, "MemoryInfo": REFUSED})
    (gpu,) = list_gpus()
    assert (gpu.sms, gpu.memory_bytes) == (0, 0)


def test_a_gpu_that_answers_nothing_is_left_out(install):
    install(dict.fromkeys(NVML_H200, REFUSED), SECOND)
    (gpu,) = list_gpus()
    assert gpu.index == 1


@pytest.mark.parametrize(
    ("variable", "indices"),
    [
        ("0,1,2", [0, 1, 2]),
        ("2,0", [2, 0]),
        (" 1 , 0 ", [1, 0]),
        ("", []),
        ("7,0", []),
        ("0,0", []),
        ("GPU-8ffb9", [1]),
        ("GPU-1111,GPU-8ffb3", [2, 0]),
        ("GPU-8ffb", []),
        ("MIG-8ffb366f", []),
    ],
)
def test_cuda_visible_devices(install, monkeypatch, variable, indices):
    install(NVML_H200, SECOND, RTX_3090)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", variable)
    assert [gpu.index for gpu in list_gpus()] == indices
    assert [gpu.index for gpu in list_gpus({})] == [0, 1, 2]


def test_the_fake_names_real_functions():
    fields = [f"nvmlDeviceGet{field}" for field in NVML_H200]
    functions = fields + [name for name in vars(FakeNvml) if name.startswith("nvml")]
    assert [function for function in functions if not hasattr(pynvml, function)] == []


def test_import_is_light():
    script = "import sys, gdnbench.machine.gpus, gdnbench.doctor.checks, gdnbench.verbs.doctor; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert not {"torch", "triton", "cuda.bench", "cuda.core", "pynvml", "pandas", "numpy"} & set(modules)


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
        ("cpu", None),
        ("2", RTX),
        ("h200", H200),
        ("rtx 3090 ti", RTX_TI),
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


@pytest.mark.parametrize("wanted", ["b200", "9", "h20", "200", "", "GPU-ffff", "nvidia", "-1"])
def test_names_what_is_there(wanted):
    with pytest.raises(GpuNotFoundError, match="0: NVIDIA H200, 1: NVIDIA H200, 2: NVIDIA GeForce RTX 3090") as caught:
        select_gpu(wanted, ALL)
    assert caught.value.exit_code is ExitCode.ENVIRONMENT
    assert "--gpu cpu" in caught.value.hint
