from gdnbench import TorchKernel

kernel = TorchKernel(name="test-stale-graph", runs_on=("cuda",))
