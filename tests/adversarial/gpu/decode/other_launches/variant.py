"""Right, but from its 61st call on with one launch less than when it was captured."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="test-other-launches", runs_on=("cuda",))
