from gdnbench import Param, TorchKernel

WAYS = ("rounded", "nan", "drifts", "partial", "changes-state", "in-place", "raises")

kernel = TorchKernel(
    name="test-wrong",
    params={"HOW": Param(default=WAYS[0], choices=WAYS, doc="what is wrong")},
    presets={f"test-{way}": {"HOW": way} for way in WAYS[1:]},
)
