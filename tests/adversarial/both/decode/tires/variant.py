from gdnbench import Param, TorchKernel

kernel = TorchKernel(
    name="test-tires", params={"CALLS": Param(default=60, choices=(60, 200), doc="how many calls are honest")}
)
