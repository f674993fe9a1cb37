"""A param whose default, on line 7, is not among its choices."""

from gdnbench import Param, TorchKernel

kernel = TorchKernel(name="test-bad-default", params={"BV": Param(default=12, choices=(8, 16))})
