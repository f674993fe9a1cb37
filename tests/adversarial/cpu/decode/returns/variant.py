from gdnbench import Param, TorchKernel

kernel = TorchKernel(
    name="test-returns",
    params={"HOW": Param(default="one", choices=("one", "shape", "dtype", "none", "text"), doc="what it returns")},
)
