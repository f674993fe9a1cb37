from gdnbench import TorchKernel

kernel = TorchKernel(name="test-bf16-state")
