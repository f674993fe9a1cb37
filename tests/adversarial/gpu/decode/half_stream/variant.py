from gdnbench import TorchKernel

kernel = TorchKernel(name="test-half-stream", runs_on=("cuda",))
