from gdnbench import CudaKernel, Param

FAULTS = {
    "test-changed-cuda": "changes_state",
    "test-drifting-cuda": "drifts",
    "test-partial-cuda": "partial",
    "test-large-shared": "none",  # a block may have 96 KiB on every GPU since sm_80, if its launch asks for it
}

kernel = CudaKernel(
    name="test-wrong-cuda",
    entry="wrong",
    params={"FAULT": Param(default="unscaled", choices=("unscaled", *FAULTS.values()), doc="what is wrong")},
    presets={name: {"FAULT": fault} for name, fault in FAULTS.items()},
    grid=lambda workload, p: (workload.V // 8, workload.B * workload.HV),
    block=lambda workload, p: 256,
    shared_bytes=lambda workload, p: 96 << 10 if p.FAULT == "none" else 256 * 4,
)
