"""A pynvml that answers with what an H200 with driver 580 answered, or refuses whatever a test names."""

from types import SimpleNamespace


class NVMLError(Exception):
    pass


H200 = {
    "Name": "NVIDIA H200",
    "UUID": "GPU-8ffb366f-0000-0000-0000-000000000000",
    "CudaComputeCapability": (9, 0),
    "NumGpuCores": 16896,
    "MemoryInfo": SimpleNamespace(total=150754820096, used=0, free=150754820096),
    "ClockInfo": {1: 1980, 2: 3201},
    "MaxClockInfo": {1: 1980, 2: 3201},
    "Temperature": 34,
    "PowerUsage": 75200,
    "EnforcedPowerLimit": 700000,
    "EccMode": [1, 1],
    "CurrentClocksEventReasons": 0,
    "ComputeRunningProcesses": [],
    "MigMode": [0, 0],
    "PersistenceMode": 1,
    "ComputeMode": 0,
}
RTX_3090 = H200 | {
    "Name": "NVIDIA GeForce RTX 3090",
    "UUID": "GPU-11112222-0000-0000-0000-000000000000",
    "CudaComputeCapability": (8, 6),
    "NumGpuCores": 10496,
    "MemoryInfo": SimpleNamespace(total=25769803776),
}
REFUSED = object()


class FakeNvml:
    """The functions of pynvml that gdnbench calls, and no others: a call of any other is an error in the test.

    `devices` are dictionaries like `H200`; a value of REFUSED is NVML's "not supported".
    """

    NVMLError = NVMLError

    def __init__(self, *devices, driver=True, process_names=None):
        self.devices = devices
        self.driver = driver
        self.process_names = process_names or {}
        self.open = 0

    def nvmlInit(self):
        if not self.driver:
            raise NVMLError("NVML Shared Library Not Found")
        self.open += 1

    def nvmlShutdown(self):
        self.open -= 1

    def nvmlDeviceGetCount(self):
        return len(self.devices)

    def nvmlDeviceGetHandleByIndex(self, index):
        return self.devices[index]

    def nvmlDeviceGetHandleByUUID(self, uuid):
        for device in self.devices:
            if device["UUID"] == uuid:
                return device
        raise NVMLError("Not Found")

    def nvmlSystemGetDriverVersion(self):
        return "580.159.04"

    def nvmlSystemGetCudaDriverVersion(self):
        return 13000

    def nvmlSystemGetProcessName(self, pid):
        if pid not in self.process_names:
            raise NVMLError("Not Found")
        return self.process_names[pid]

    def __getattr__(self, function):
        field = function.removeprefix("nvmlDeviceGet")
        if field not in H200:
            raise AttributeError(function)

        def answer(device, *args):
            assert self.open == 1, "asked outside nvmlInit and nvmlShutdown"
            value = device[field]
            if value is REFUSED:
                raise NVMLError("Not Supported")
            return value[args[0]] if isinstance(value, dict) else value

        return answer


HEALTHY = {
    "sm_mhz": 1980,
    "sm_max_mhz": 1980,
    "memory_mhz": 3201,
    "memory_max_mhz": 3201,
    "temperature_c": 34,
    "power_w": 75.2,
    "power_limit_w": 700.0,
    "ecc": True,
    "throttle_reasons": (),
    "processes": (),
    "driver_version": "580.159.04",
    "cuda_driver_version": "13.0",
    "mig": False,
    "persistence": True,
    "compute_mode": "default",
}
"""What a healthy H200 tells of its state."""
