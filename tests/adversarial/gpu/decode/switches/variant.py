from gdnbench import Param, TorchKernel

kernel = TorchKernel(
    name="test-switches",
    runs_on=("cuda",),
    params={"AFTER": Param(default=0, choices=(0, 60), doc="calls of its process, the first at each bind apart")},
)
