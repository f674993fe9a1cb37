"""Right, and slow by as much as its params say: LEAST at DELAY=2, where WIDE does not matter."""

from gdnbench import Param, TorchKernel

kernel = TorchKernel(
    name="test-tunable",
    params={
        "DELAY": Param(default=4, choices=(1, 2, 3, 4, 99), doc="tenths of a millisecond beside the work; 1 is wrong"),
        "WIDE": Param(default=0, choices=(0, 1), doc="changes nothing"),
    },
)
