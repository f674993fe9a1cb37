from gdnbench import TorchKernel

kernel = TorchKernel(name="test-other-launches", runs_on=("cuda",))
