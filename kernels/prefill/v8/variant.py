"""v4 with a block for each whole sequence and value head, the longest first."""

from gdnbench import CudaKernel, CudaLaunch, Param, TensorMap

CHUNK = 64
BOX = (CHUNK, 1, 64)  # of q, k and v: tokens of a head, and a band of columns
BLOCK_BYTES = 231264  # what the kernel's struct FusedMemory takes

kernel = CudaKernel(
    name="prefill-v8",
    target="sm_90a",
    params={
        "SORTED": Param(default=512, choices=(4, 512), doc="with more sequences than that they are taken as they come"),
    },
    launches=(
        CudaLaunch(
            entry="gdn_prefill",
            grid=lambda shape, p: (shape.HV, len(shape.lengths)),
            block=lambda shape, p: 512,
            shared_bytes=lambda shape, p: BLOCK_BYTES,
            arguments=(
                TensorMap("q", box=BOX),
                TensorMap("k", box=BOX),
                TensorMap("v", box=BOX),
                "state",
                "A_log",
                "dt_bias",
                "a",
                "b",
                "cu_seqlens",
                "scale",
                "output",
                "new_state",
                "N",
            ),
        ),
    ),
    invariant=("order", "rerun"),
)
