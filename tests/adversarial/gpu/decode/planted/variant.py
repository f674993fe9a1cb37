from gdnbench import CudaKernel, Param

kernel = CudaKernel(
    name="test-planted",
    entry="planted",
    params={"FAULT": Param(default=0, choices=tuple(range(6)), doc="which fault; 0 for none")},
    presets={
        "test-past-the-end": {"FAULT": 1},
        "test-raced": {"FAULT": 2},
        "test-unwritten-shared": {"FAULT": 3},
        "test-unwritten-global": {"FAULT": 4},
        "test-divergent-barrier": {"FAULT": 5},
    },
    grid=lambda workload, p: (workload.V // 8, workload.B * workload.HV),
    block=lambda workload, p: 256,
    shared_bytes=lambda workload, p: 256 * 4,
)
