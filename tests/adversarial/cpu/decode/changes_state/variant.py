from gdnbench import TorchKernel

kernel = TorchKernel(name="test-changes-state")
