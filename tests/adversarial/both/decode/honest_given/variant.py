from gdnbench import TorchKernel

kernel = TorchKernel(name="test-honest-given")
