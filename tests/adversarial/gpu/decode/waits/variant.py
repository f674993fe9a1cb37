from gdnbench import TorchKernel

kernel = TorchKernel(name="test-waits", runs_on=("cuda",))
