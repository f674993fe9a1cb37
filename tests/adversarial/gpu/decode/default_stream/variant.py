from gdnbench import TorchKernel

kernel = TorchKernel(name="test-default-stream", runs_on=("cuda",))
