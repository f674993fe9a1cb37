from gdnbench import Param, TorchKernel

kernel = TorchKernel(
    name="test-stale-outputs",
    params={"HOW": Param(default="given", choices=("given", "own", "late"), doc="which memory, and when")},
)
