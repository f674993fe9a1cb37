"""The reference through torch.compile: what needs no state in one function, and a chunk of all sequences in another."""

from gdnbench import TorchKernel

kernel = TorchKernel(name="prefill-compiled")
