"""Right unless NVBench or CUPTI is loaded, or a timer is on the stack."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="test-spots-timer")
