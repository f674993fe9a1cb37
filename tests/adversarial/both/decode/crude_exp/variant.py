from gdnbench import TorchKernel

kernel = TorchKernel(name="test-crude-exp")
