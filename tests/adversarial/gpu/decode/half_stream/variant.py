"""Right, but half of its work goes to a stream of its own."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="test-half-stream", runs_on=("cuda",))
