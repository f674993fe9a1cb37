from gdnbench import TorchKernel

kernel = TorchKernel(name="test-asks", runs_on=("cuda",))
