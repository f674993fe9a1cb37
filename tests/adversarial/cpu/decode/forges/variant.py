from gdnbench import Param, TorchKernel

kernel = TorchKernel(
    name="test-forges",
    params={"HOW": Param(default="examined", choices=("examined", "sampled", "junk"), doc="what it writes, and when")},
)
