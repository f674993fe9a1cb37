"""decode-v9 with a planted slowdown, and equal kernels under other names: for `gdnbench calibrate` alone."""

from gdnbench import CudaKernel, Param

LANES, WARPS = 8, 4  # as in kernel.cu
MOST_EQUAL = 8
LONGEST_CHAIN = 2048

kernel = CudaKernel(
    name="decode-planted",
    entry="gdn_decode_planted",
    params={
        "CHAIN": Param(
            default=0,
            choices=tuple(range(LONGEST_CHAIN + 1)),
            doc="additions that wait for one another, before the stores",
        ),
        "COPY": Param(
            default=0,
            choices=tuple(range(MOST_EQUAL + 1)),
            doc="changes nothing but the name: compiled and loaded by itself",
        ),
    },
    grid=lambda workload, _p: (workload.B * workload.HV * workload.V * LANES // (32 * WARPS),),
    block=lambda _workload, _p: 32 * WARPS,
)
