from gdnbench import Param, TorchKernel

kernel = TorchKernel(
    name="test-dies",
    params={"HOW": Param(default="abort", choices=("abort", "segfault", "exit", "ramble"), doc="how it dies")},
)
