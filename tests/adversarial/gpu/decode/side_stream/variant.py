"""Right, on a stream of its own, which nothing waits for."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="test-side-stream", runs_on=("cuda",))
