"""Three launches, as models have them: prologue-v1's, decode-pool-v1's and epilogue-v1's, with bf16 between them."""

from gdnbench import CudaKernel, CudaLaunch, Param, Shape, TensorSpec


def warps(shape: Shape) -> int:
    """Of a sequence: one a query or key head, those of values, which hold as many channels, and those of gates."""
    channels = 128 * -(-shape.K // 128)
    return 2 * shape.HQ + -(-shape.HV * shape.V // channels) + -(-shape.HV // 32)


kernel = CudaKernel(
    name="layer-chain",
    params={"WARPS": Param(default=4, choices=(2, 4, 8), doc="warps per block of each launch")},
    in_place={"new_conv_pool": "conv_pool", "new_pool": "pool"},
    scratch=(
        TensorSpec("q", ("B", "HQ", "K"), "bf16"),
        TensorSpec("k", ("B", "HQ", "K"), "bf16"),
        TensorSpec("v", ("B", "HV", "V"), "bf16"),
        TensorSpec("g", ("B", "HV"), "fp32"),
        TensorSpec("beta", ("B", "HV"), "fp32"),
        TensorSpec("o", ("B", "HV", "V"), "bf16"),
    ),
    launches=(
        CudaLaunch(
            entry="gdn_layer_prologue",
            grid=lambda shape, p: (-(-warps(shape) // p.WARPS), shape.B),
            block=lambda shape, p: 32 * p.WARPS,
            arguments=(
                "x", "conv_weight", "slot", "a", "b", "A_log", "dt_bias", "beta_limit", "new_conv_pool",
                "q", "k", "v", "g", "beta",
            ),
        ),
        CudaLaunch(
            entry="gdn_layer_recurrence",
            grid=lambda shape, p: (shape.B * shape.HV * shape.V // (4 * p.WARPS),),
            block=lambda shape, p: 32 * p.WARPS,
            arguments=("slot", "scale", "q", "k", "v", "g", "beta", "new_pool", "o"),
        ),
        CudaLaunch(
            entry="gdn_layer_epilogue",
            grid=lambda shape, p: (-(-shape.B * shape.HV // p.WARPS),),
            block=lambda shape, p: 32 * p.WARPS,
            arguments=("o", "z", "weight", "y", "B"),
        ),
    ),
)  # fmt: skip
