"""Its implementation fails to import, on line 3."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="test-import-fails")
