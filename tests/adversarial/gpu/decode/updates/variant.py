from gdnbench import TorchKernel

kernel = TorchKernel(name="test-updates", in_place={"new_state": "state"})
