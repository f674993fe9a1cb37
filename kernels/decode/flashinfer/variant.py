"""FlashInfer's CuTe DSL kernel; updates the state in place, so it reads and writes the same bytes in one tensor."""

from gdnbench import Requirement, TorchKernel

kernel = TorchKernel(
    name="decode-flashinfer",
    runs_on=("cuda",),
    requires=(Requirement("flashinfer", extra="flashinfer"),),
    in_place={"new_state": "state"},
)
