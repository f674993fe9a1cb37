"""Flash Linear Attention's fused recurrent kernel between a gather and a scatter: its function knows no pool."""

from gdnbench import Requirement, TorchKernel

kernel = TorchKernel(
    name="decode-split-fla",
    runs_on=("cuda",),
    requires=(Requirement("fla", extra="fla"),),
    in_place={"new_pool": "pool"},
)
