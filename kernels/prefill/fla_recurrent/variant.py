"""Flash Linear Attention's fused recurrent kernel, token after token: for short prompts."""

from gdnbench import Requirement, TorchKernel

kernel = TorchKernel(name="prefill-fla-recurrent", runs_on=("cuda",), requires=(Requirement("fla", extra="fla"),))
