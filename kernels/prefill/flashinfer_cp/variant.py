"""prefill-flashinfer with its switch: sequences are split among the SMs, by what the batch leaves free, or whole.

`auto` is what FlashInfer does by default: it splits where sequences times value heads are few for the GPU, so that the
bits of a sequence depend on how many others there are. An engine that wants the same bits in every batch says `off`.
"""

from gdnbench import Param, Requirement, TorchKernel

kernel = TorchKernel(
    name="prefill-flashinfer-cp",
    runs_on=("cuda",),
    requires=(Requirement("flashinfer", extra="flashinfer"),),
    params={
        "CP": Param(default="auto", choices=("auto", "off", "on"), doc="whether a sequence is split among the SMs"),
    },
)
