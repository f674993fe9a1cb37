from gdnbench import Param, TorchKernel

kernel = TorchKernel(
    name="test-tampers",
    params={
        "HOW": Param(
            default="gates", choices=("gates", "code", "torch", "clock", "channel"), doc="what it replaces, and when"
        )
    },
)
