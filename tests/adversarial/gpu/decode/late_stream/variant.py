from gdnbench import TorchKernel

kernel = TorchKernel(name="test-late-stream", runs_on=("cuda",))
