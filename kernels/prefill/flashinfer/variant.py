"""FlashInfer's CuTe DSL kernels behind one launch for the gates, which it takes ready-made as exp(g) and beta.

It splits sequences among the SMs where heads and sequences are few, as by default. On SM90 it adds 1e-10 to each decay
before it takes the logarithm, and leaves the state of an empty sequence unwritten: such workloads are refused.
"""

from gdnbench import Requirement, TorchKernel

kernel = TorchKernel(
    name="prefill-flashinfer",
    runs_on=("cuda",),
    requires=(Requirement("flashinfer", extra="flashinfer"),),
)
