"""Benchmark and profile Gated Delta Net GPU kernels.

Exports what a `variant.py` or an `op.py` needs to declare a kernel or an op, and `compare` and `bench`, which measure
functions. Importing this package imports neither torch nor triton.
"""

import sys

if sys.argv[:1] == ["-m"] and "gdnbench" in sys.orig_argv and not sys.flags.safe_path:
    # `python -m gdnbench` searches the current folder for modules, and a file there may be called json.py. This comes
    # first, because it may shadow the next imports, too.
    del sys.path[0]

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gdnbench.api import ComparedFunctions, bench, compare
    from gdnbench.model.declaration import (
        DtypeOf,
        ExactGate,
        Hint,
        Param,
        Params,
        Profile,
        RmsGate,
        RoundoffGate,
        TensorSpec,
        UlpGate,
    )
    from gdnbench.model.kernel import (
        CudaKernel,
        CudaLaunch,
        CuteKernel,
        CutileKernel,
        DispatchKernel,
        Requirement,
        TensorMap,
        TorchKernel,
        TritonKernel,
        TritonLaunch,
    )
    from gdnbench.model.op import Op
    from gdnbench.model.sequences import Sequences
    from gdnbench.model.workload import Shape, Workload
    from gdnbench.model.workload_spec import Alias, Axis, AxisList, WorkloadSpec

__version__ = "0.1.0"

__all__ = [
    "Alias",
    "Axis",
    "AxisList",
    "ComparedFunctions",
    "CudaKernel",
    "CudaLaunch",
    "CuteKernel",
    "CutileKernel",
    "DispatchKernel",
    "DtypeOf",
    "ExactGate",
    "Hint",
    "Op",
    "Param",
    "Params",
    "Profile",
    "Requirement",
    "RmsGate",
    "RoundoffGate",
    "Sequences",
    "Shape",
    "TensorMap",
    "TensorSpec",
    "TorchKernel",
    "TritonKernel",
    "TritonLaunch",
    "UlpGate",
    "Workload",
    "WorkloadSpec",
    "__version__",
    "bench",
    "compare",
]

_MODULES = (
    *("model.declaration", "model.kernel", "model.op", "model.sequences", "model.workload", "model.workload_spec"),
    "api",
)


def __getattr__(name: str) -> object:
    """Imports a name of `__all__` at its first use: `gdnbench --help` needs none of them."""
    if name in __all__:
        for module in _MODULES:
            found = getattr(import_module(f"gdnbench.{module}"), name, None)
            if found is not None:
                globals()[name] = found
                return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
