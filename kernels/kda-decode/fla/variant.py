"""Flash Linear Attention's recurrent kernel on its pool; it knows no padding, which launches around it make good."""

from gdnbench import Requirement, TorchKernel

kernel = TorchKernel(
    name="kda-decode-fla",
    runs_on=("cuda",),
    requires=(Requirement("fla", extra="fla"),),
    in_place={"new_pool": "pool"},
)
