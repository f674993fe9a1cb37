"""Right, on the default stream, whatever stream it was given."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="test-default-stream", runs_on=("cuda",))
