"""torch._scaled_mm and the table through torch.compile: what one gets without writing a kernel."""

from gdnbench import Param, TorchKernel

kernel = TorchKernel(
    name="fp8-gemm-pos-compiled",
    params={
        "MODE": Param(
            default="default",
            choices=("default", "max-autotune-no-cudagraphs"),
            doc="of torch.compile; with autotuning its own matrix product may take the table in",
        ),
        "FAST": Param(default=1, choices=(0, 1), doc="1: sums stay in Hopper's tensor cores, use_fast_accum"),
    },
)
