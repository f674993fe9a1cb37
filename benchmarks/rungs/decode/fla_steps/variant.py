"""The steps between decode-fla and decode-fla-unfused: gates by torch alone, or transposing copies alone."""

from gdnbench import Param, Requirement, TorchKernel

kernel = TorchKernel(
    name="decode-fla-steps",
    params={
        "GATES": Param(default="fused", choices=("fused", "torch"), doc="where the gates are computed"),
        "TRANSPOSED": Param(default=0, choices=(0, 1), doc="1: a k-first state, and a transposing copy either side"),
    },
    runs_on=("cuda",),
    requires=(Requirement("fla", extra="fla"),),
)
