"""Flash Linear Attention's fused gated RMSNorm, by the module that its layers use."""

from gdnbench import Requirement, TorchKernel

kernel = TorchKernel(name="epilogue-fla", runs_on=("cuda",), requires=(Requirement("fla", extra="fla"),))
