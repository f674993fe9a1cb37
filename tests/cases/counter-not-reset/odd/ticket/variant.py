"""A kernel of one launch whose arguments are named."""

from gdnbench import CudaKernel, CudaLaunch, TensorSpec

kernel = CudaKernel(
    name="odd-ticket",
    scratch=(TensorSpec("parts", ("M", 4), "fp32"),),
    launches=(
        CudaLaunch(entry="odd", grid=lambda w, p: (4, w.M), block=lambda w, p: 32, arguments=("x", "y", "parts")),
    ),
)
