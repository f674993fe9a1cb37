"""Halves of the inner axis in two launches' worth of scratch: the sums of each half, then their sum."""

from gdnbench import CudaKernel, CudaLaunch, Param, TensorSpec

kernel = CudaKernel(
    name="gemm-split",
    params={"PARTS": Param(default=2, choices=(2, 4), doc="parts of the inner axis")},
    scratch=(TensorSpec("sums", ("PARTS", "M", "N"), "fp32"),),
    launches=(
        CudaLaunch(
            entry="partial_sums",
            grid=lambda workload, p: (-(-workload.M * workload.N // 64), p.PARTS),
            block=lambda workload, p: 64,
            arguments=("A", "B", "sums", "M"),
        ),
        CudaLaunch(
            entry="add_sums",
            grid=lambda workload, p: (-(-workload.M * workload.N // 64),),
            block=lambda workload, p: 64,
            arguments=("sums", "C", "M"),
        ),
    ),
)
