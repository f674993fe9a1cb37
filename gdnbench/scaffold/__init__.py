"""Makes a new kernel's folder from another kernel's; imports no torch."""

from gdnbench.scaffold.make import NewKernel, make_kernel

__all__ = ["NewKernel", "make_kernel"]
