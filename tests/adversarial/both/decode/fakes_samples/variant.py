from gdnbench import Param, TorchKernel

kernel = TorchKernel(
    name="test-fakes-samples",
    params={"HOW": Param(default="samples", choices=("samples", "verdict"), doc="what it writes")},
)
