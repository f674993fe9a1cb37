"""FlashQLA's TileLang kernels behind one launch for the gates, which it takes ready-made as g and beta.

It compiles with nvcc at the first call of each head layout, and keeps that in TileLang's cache. In one environment with
FlashInfer both take apache-tvm-ffi 0.1.12. It refuses empty sequences.
"""

from gdnbench import Requirement, TorchKernel

kernel = TorchKernel(
    name="prefill-flashqla",
    runs_on=("cuda",),
    requires=(Requirement("flash_qla", extra="flashqla"),),
)
