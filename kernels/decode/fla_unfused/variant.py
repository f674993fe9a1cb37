"""What engines did before fusing: gates by torch, FLA on a k-first state, a transposing copy either side."""

from gdnbench import Requirement, TorchKernel

kernel = TorchKernel(name="decode-fla-unfused", runs_on=("cuda",), requires=(Requirement("fla", extra="fla"),))
