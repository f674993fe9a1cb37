from gdnbench import TorchKernel

kernel = TorchKernel(name="test-value-cache")
