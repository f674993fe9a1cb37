from gdnbench import Param, TorchKernel

kernel = TorchKernel(
    name="test-rarely-wrong",
    params={"ONE_IN": Param(default=50, choices=(2, 50), doc="one launch of how many does nothing")},
)
