"""Which kernel a profile is of."""

import pytest
from decode_workloads import decode_at
from dispatch_data import H200_ROWS, write_dispatcher

from gdnbench.catalog.catalog import load_catalog
from gdnbench.errors import GpuNotFoundError, UsageError
from gdnbench.model.gpu import Gpu
from gdnbench.profile.process import choose_case

H200 = Gpu(0, "NVIDIA H200", "GPU-0", (9, 0))
B200 = Gpu(1, "NVIDIA B200", "GPU-1", (10, 0))
TABLE = f"""{H200_ROWS}
[b200.qk4_v8]
source = "20260102-040506-b200-decode"
B1 = {{ kernel = "decode-v1", BV = 4 }}
"""


@pytest.fixture
def choose(tmp_path, monkeypatch):
    """Chooses on a machine with an H200 and a B200, with a dispatcher in the catalog."""
    write_dispatcher(tmp_path, TABLE)
    monkeypatch.setenv("GDNBENCH_KERNELS", str(tmp_path))
    monkeypatch.setattr("gdnbench.profile.process.list_gpus", lambda: (H200, B200))
    return lambda label="decode-mine", axes="", **more: choose_case(load_catalog(), "decode", label, axes=axes, **more)


@pytest.mark.parametrize(
    ("axes", "gpu", "label"),
    [
        ("B=1", "auto", "decode-v4:WARPS=2"),
        ("B=8", "h200", "decode-v6"),
        ("B=8", "b200", "decode-v1c"),
        ("B=1", "cpu", "decode-v4:WARPS=2"),
    ],
)
def test_of_a_dispatcher_it_is_what_that_picks_for_the_gpu_and_under_its_own_name(choose, axes, gpu, label):
    assert choose(axes=axes, gpu=gpu).label == label


def test_a_kernel_takes_its_params_for_the_workload(choose):
    case = choose("decode-triton", "B=8")
    assert (case.label, case.workload) == ("decode-triton", decode_at(B=8))
    assert case.variant.params == {"BV": 8, "WARPS": 8, "STAGES": 1}


def test_a_gpu_that_is_not_here_is_refused(choose):
    with pytest.raises(GpuNotFoundError, match="b100"):
        choose(gpu="b100")


def test_several_workloads_are_refused(choose):
    with pytest.raises(UsageError, match="2 workloads"):
        choose("decode-v4", "B=1,8")
