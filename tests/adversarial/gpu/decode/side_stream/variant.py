from gdnbench import TorchKernel

kernel = TorchKernel(name="test-side-stream", runs_on=("cuda",))
