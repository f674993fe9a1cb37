from gdnbench import TorchKernel

kernel = TorchKernel(name="test-allocates", runs_on=("cuda",))
