from gdnbench import Param, TorchKernel

kernel = TorchKernel(
    name="test-late", params={"HOW": Param(default="abort", choices=("abort", "hang", "raise"), doc="how it fails")}
)
