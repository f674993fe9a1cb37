"""`torch._scaled_mm`, and so cuBLAS: tensor cores of sm_100 take both factors as they are, and scales in tiles."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="nvfp4-gemm-scaled-mm", runs_on=("cuda",), since="sm_100")
