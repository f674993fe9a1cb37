from gdnbench import TorchKernel

kernel = TorchKernel(name="test-one-shape")
