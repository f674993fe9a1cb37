"""FlashInfer's CuTe DSL kernel on its pool; it knows padding by -1 alone, so that a launch before it renames slots."""

from gdnbench import Requirement, TorchKernel

kernel = TorchKernel(
    name="decode-pool-flashinfer",
    runs_on=("cuda",),
    requires=(Requirement("flashinfer", extra="flashinfer"),),
    in_place={"new_pool": "pool"},
)
