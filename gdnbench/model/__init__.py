"""The vocabulary: frozen dataclasses that the rest of gdnbench speaks in."""

from gdnbench.model.build import Build
from gdnbench.model.case import Case, Role, Variant
from gdnbench.model.code_state import CodeState
from gdnbench.model.dispatch import DispatchKernel
from gdnbench.model.gate import GateResult, WrongElements
from gdnbench.model.gpu import CPU, Gpu, gpu_slug
from gdnbench.model.kernel import (
    NOTHING_IN_PLACE,
    CudaKernel,
    Device,
    Kernel,
    Requirement,
    TorchKernel,
    TritonKernel,
)
from gdnbench.model.measurement import CLOCKS, Clock, Measurement, Timer, Timing, Versus
from gdnbench.model.op import DTYPE_BYTES, Dtype, Op, RmsGate, TensorSpec, UlpGate
from gdnbench.model.params import Param, Params, ParamValue
from gdnbench.model.shape import Shape, nearest_shape
from gdnbench.model.status import Status
from gdnbench.model.suite import Suite
from gdnbench.model.sweep import OneForAll, Place, Plateau, Point, Sweep

__all__ = [
    "CLOCKS",
    "CPU",
    "DTYPE_BYTES",
    "NOTHING_IN_PLACE",
    "Build",
    "Case",
    "Clock",
    "CodeState",
    "CudaKernel",
    "Device",
    "DispatchKernel",
    "Dtype",
    "GateResult",
    "Gpu",
    "Kernel",
    "Measurement",
    "OneForAll",
    "Op",
    "Param",
    "ParamValue",
    "Params",
    "Place",
    "Plateau",
    "Point",
    "Requirement",
    "RmsGate",
    "Role",
    "Shape",
    "Status",
    "Suite",
    "Sweep",
    "TensorSpec",
    "Timer",
    "Timing",
    "TorchKernel",
    "TritonKernel",
    "UlpGate",
    "Variant",
    "Versus",
    "WrongElements",
    "gpu_slug",
    "nearest_shape",
]
