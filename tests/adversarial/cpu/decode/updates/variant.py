from gdnbench import Param, TorchKernel

kernel = TorchKernel(
    name="test-updates",
    params={
        "HOW": Param(default="always", choices=("always", "never", "half", "once", "input"), doc="what it updates")
    },
    in_place={"new_state": "state"},
)
