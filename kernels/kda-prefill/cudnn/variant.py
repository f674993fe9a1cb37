"""The cuDNN front end's Hopper kernel, behind one launch each that widens g, and b, to fp32.

It is for the form with a bound alone. It drops what is behind 2^-23.5, so that its time depends on the decays; and it
divides keys by the product of 16 decays, which overflows fp32 by the form of softplus. Of that form one is not told by
an error: where `safe_gate` is asked for and no bound is given, and so where FlashInfer's `backend="cudnn"` is called
with `use_gate_in_kernel` and without `lower_bound`, it takes the bound -5, silently, which is another function.
"""

from gdnbench import Requirement, TorchKernel, Workload

BOUNDED = 1
HEAD = 128


def check(workload: Workload) -> str:
    """What the upstream function cannot do on Hopper; empty where it can."""
    if workload.GATE != BOUNDED:
        return "cuDNN's gate has a bound, and its softplus would be -5 sigmoid without a word"
    if (workload.K, workload.V) != (HEAD, HEAD):
        return f"cuDNN's heads have {HEAD} elements"
    return ""


kernel = TorchKernel(
    name="kda-prefill-cudnn",
    runs_on=("cuda",),
    requires=(Requirement("cudnn", extra="cudnn"),),
    check=check,
)
