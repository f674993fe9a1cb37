from gdnbench import Param, TorchKernel

kernel = TorchKernel(
    name="test-patches",
    params={"HOW": Param(default="event", choices=("empty", "event", "clock", "timer"), doc="what it replaces")},
)
