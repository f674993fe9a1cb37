"""Right, and has the L2 keep its state from one launch to the next."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="test-persisting-l2", runs_on=("cuda",))
