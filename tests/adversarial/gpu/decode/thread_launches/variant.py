"""Right, but a thread launches its work, on that thread's default stream."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="test-thread-launches", runs_on=("cuda",))
