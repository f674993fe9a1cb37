"""FlashInfer's recurrence on its pool between Flash Linear Attention's convolution and gated RMSNorm.

FlashInfer has no convolution and no such norm; fla's convolution knows no pool, so that inputs are gathered for it.
"""

from gdnbench import Requirement, TorchKernel

kernel = TorchKernel(
    name="layer-flashinfer",
    runs_on=("cuda",),
    requires=(Requirement("fla", extra="fla"), Requirement("flashinfer", extra="flashinfer")),
    in_place={"new_conv_pool": "conv_pool", "new_pool": "pool"},
)
