from gdnbench import Param, TorchKernel

WAYS = ("side-stream", "default-stream", "half-stream", "waits", "asks", "allocates")

kernel = TorchKernel(
    name="test-off-stream",
    runs_on=("cuda",),
    params={"HOW": Param(default=WAYS[0], choices=WAYS, doc="where its work goes, or how it waits")},
    presets={f"test-{way}": {"HOW": way} for way in WAYS},
)
