from gdnbench import TorchKernel

kernel = TorchKernel(name="test-import-fails")
