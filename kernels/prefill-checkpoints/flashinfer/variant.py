"""FlashInfer's CuTe DSL kernels with their checkpoints, behind one launch for the gates, as in prefill-flashinfer."""

from gdnbench import Requirement, TorchKernel

kernel = TorchKernel(
    name="prefill-checkpoints-flashinfer",
    runs_on=("cuda",),
    requires=(Requirement("flashinfer", extra="flashinfer"),),
)
