from gdnbench import TorchKernel

kernel = TorchKernel(name="test-thread-launches", runs_on=("cuda",))
