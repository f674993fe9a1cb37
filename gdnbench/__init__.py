"""Benchmark and profile Gated Delta Net GPU kernels.

The names below are what a `variant.py` or an `op.py` needs to declare a kernel or an op.
Importing this package imports neither torch nor triton.
"""

from gdnbench.model import (
    CudaKernel,
    DispatchKernel,
    Op,
    Param,
    Params,
    Requirement,
    RmsGate,
    Shape,
    TensorSpec,
    TorchKernel,
    TritonKernel,
    UlpGate,
)

__version__ = "0.1.0"

__all__ = [
    "CudaKernel",
    "DispatchKernel",
    "Op",
    "Param",
    "Params",
    "Requirement",
    "RmsGate",
    "Shape",
    "TensorSpec",
    "TorchKernel",
    "TritonKernel",
    "UlpGate",
    "__version__",
]
