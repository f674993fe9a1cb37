"""Right, and allocates with cudaMalloc in each call, past torch's allocator."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="test-allocates", runs_on=("cuda",))
