"""Flash Linear Attention's fused recurrent kernel, once a token, between a gather and a scatter: it keeps one state."""

from gdnbench import Requirement, TorchKernel

kernel = TorchKernel(
    name="verify-rollback-fla",
    runs_on=("cuda",),
    requires=(Requirement("fla", extra="fla"),),
    in_place={"new_pool": "pool"},
)
