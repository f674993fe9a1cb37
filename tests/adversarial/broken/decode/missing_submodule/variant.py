"""Needs a module inside a package, and the package is missing."""

from gdnbench import Requirement, TorchKernel

kernel = TorchKernel(name="test-missing-submodule", requires=(Requirement("no_such.inner", extra="fla"),))
