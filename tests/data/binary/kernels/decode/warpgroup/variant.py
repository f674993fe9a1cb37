"""Warpgroup products that can run on: several a group or one; with TOUCHED a sum is used before they are waited for."""

from gdnbench import CudaKernel, Param

kernel = CudaKernel(
    name="test-warpgroup",
    target="sm_90a",
    entry="products",
    params={
        "PRODUCTS": Param(default=4, choices=(1, 4), doc="products a group, which is waited for"),
        "TOUCHED": Param(default=0, choices=(0, 1), doc="whether a sum changes between products and wait"),
    },
    grid=lambda workload, p: (workload.V, workload.B * workload.HV),
    block=lambda workload, p: 128,
)
