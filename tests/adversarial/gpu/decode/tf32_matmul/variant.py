from gdnbench import TorchKernel

kernel = TorchKernel(name="test-tf32-matmul", runs_on=("cuda",))
