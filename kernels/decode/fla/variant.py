"""Flash Linear Attention's fused recurrent kernel, gates fused, as its users call it. The baseline."""

from gdnbench import Requirement, TorchKernel

kernel = TorchKernel(name="decode-fla", runs_on=("cuda",), requires=(Requirement("fla", extra="fla"),))
