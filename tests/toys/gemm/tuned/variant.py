"""torch's product, some rows at a time: a param that a machine without a GPU can sweep."""

from gdnbench import Param, TorchKernel

kernel = TorchKernel(
    name="gemm-tuned",
    params={"ROWS": Param(default=128, choices=(1, 16, 128), doc="rows of C that are computed at once")},
)
