"""A name that a bundled kernel has."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="decode-reference")
