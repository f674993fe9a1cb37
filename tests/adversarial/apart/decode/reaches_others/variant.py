from gdnbench import Param, TorchKernel

kernel = TorchKernel(
    name="test-reaches-others",
    runs_on=("cuda",),
    params={"HOW": Param(default="reader", choices=("reader", "instances", "launch"), doc="what it changes")},
)
