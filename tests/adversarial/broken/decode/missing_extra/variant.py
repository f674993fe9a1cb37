"""Needs a module that an extra installs."""

from gdnbench import Requirement, TorchKernel

kernel = TorchKernel(name="test-missing-extra", requires=(Requirement("no_such_module", extra="flashinfer"),))
