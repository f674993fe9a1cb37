from gdnbench import TorchKernel

kernel = TorchKernel(name="test-persisting-l2", runs_on=("cuda",))
