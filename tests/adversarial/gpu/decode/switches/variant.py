"""Right when it is checked; where it is timed it copies the outputs of its first call, at once or after some calls."""

from gdnbench import Param, TorchKernel

kernel = TorchKernel(
    name="test-switches",
    runs_on=("cuda",),
    params={"AFTER": Param(default=0, choices=(0, 60), doc="calls of its process, the first at each bind apart")},
)
