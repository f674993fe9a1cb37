import subprocess
import sys

import pynvml
import pytest
from fake_nvml import H200, REFUSED, RTX_3090, FakeNvml

from gdnbench.machine import list_gpus

SECOND = H200 | {"UUID": "GPU-8ffb9999-0000-0000-0000-000000000000"}


@pytest.fixture
def install(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def install(*devices, **options):
        fake = FakeNvml(*devices, **options)
        monkeypatch.setitem(sys.modules, "pynvml", fake)
        return fake

    return install


def test_reads_an_h200(install):
    fake = install(H200)
    (gpu,) = list_gpus()
    assert (gpu.index, gpu.name, gpu.arch, gpu.slug) == (0, "NVIDIA H200", "sm_90", "h200")
    assert gpu.sms == 132
    assert gpu.memory_bytes == 150754820096
    assert gpu.l2_bytes == 0
    assert fake.open == 0


def test_counts_the_sms_of_ampere(install):
    install(RTX_3090)
    assert list_gpus()[0].sms == 82


@pytest.mark.parametrize(
    ("capability", "cores", "sms"), [((8, 0), 6912, 108), ((10, 0), 18944, 148), ((99, 0), 1000, 0)]
)
def test_counts_sms_by_capability(install, capability, cores, sms):
    install(H200 | {"CudaComputeCapability": capability, "NumGpuCores": cores})
    assert list_gpus()[0].sms == sms


def test_no_driver_is_no_gpu(install):
    install(driver=False)
    assert list_gpus() == ()


def test_no_gpu(install):
    install()
    assert list_gpus() == ()


def test_the_real_library_never_raises():
    assert isinstance(list_gpus({}), tuple)


def test_what_is_refused_is_unknown(install):
    install(H200 | {"Name": REFUSED, "NumGpuCores": REFUSED, "MemoryInfo": REFUSED})
    (gpu,) = list_gpus()
    assert (gpu.sms, gpu.memory_bytes) == (0, 0)


def test_a_gpu_that_answers_nothing_is_left_out(install):
    install(dict.fromkeys(H200, REFUSED), SECOND)
    (gpu,) = list_gpus()
    assert gpu.index == 1


@pytest.mark.parametrize(
    ("variable", "indices"),
    [
        ("0,1,2", [0, 1, 2]),
        ("2,0", [2, 0]),
        (" 1 , 0 ", [1, 0]),
        ("", []),
        ("-1", []),
        ("NoDevFiles", []),
        ("0,-1,1", [0]),
        ("7,0", []),
        ("0,0", []),
        ("GPU-8ffb9", [1]),
        ("GPU-1111,GPU-8ffb3", [2, 0]),
        ("GPU-8ffb", []),
        ("2,GPU-1111", []),
        ("gpu-1111", []),
        ("MIG-8ffb366f", []),
    ],
)
def test_cuda_visible_devices(install, monkeypatch, variable, indices):
    install(H200, SECOND, RTX_3090)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", variable)
    assert [gpu.index for gpu in list_gpus()] == indices
    assert [gpu.index for gpu in list_gpus({})] == [0, 1, 2]


def test_the_fake_names_real_functions():
    fields = [f"nvmlDeviceGet{field}" for field in H200]
    functions = fields + [name for name in vars(FakeNvml) if name.startswith("nvml")]
    assert [function for function in functions if not hasattr(pynvml, function)] == []


def test_import_is_light():
    script = "import sys, gdnbench.machine, gdnbench.doctor, gdnbench.cli.doctor; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert not {"torch", "triton", "cuda.bench", "cuda.core", "pynvml", "pandas", "numpy"} & set(modules)
