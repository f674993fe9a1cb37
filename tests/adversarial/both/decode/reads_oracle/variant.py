from gdnbench import Param, TorchKernel

kernel = TorchKernel(
    name="test-reads-oracle", params={"HOW": Param(default="gc", choices=("gc", "stack"), doc="where it looks")}
)
