from gdnbench import Param, TorchKernel

kernel = TorchKernel(
    name="test-peeks", params={"AT": Param(default="answers", choices=("answers", "inputs"), doc="what it looks for")}
)
