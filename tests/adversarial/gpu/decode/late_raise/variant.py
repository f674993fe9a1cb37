from gdnbench import TorchKernel

kernel = TorchKernel(name="test-late-raise", runs_on=("cuda",))
