"""The upstream function of flashinfer, whose tensors are the op's; it compiles at its first call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flashinfer.kda_decode import fused_kda_decode

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from gdnbench import Params, Shape

EPS = 1e-5
BOUNDED = 1


def bind(tensors, shape: Shape, params: Params) -> Callable[[], tuple[torch.Tensor, ...]]:
    del params
    t = tensors

    def launch() -> tuple[torch.Tensor, ...]:
        fused_kda_decode(
            x=t.x,
            weight=t.conv_weight,
            conv_state=t.new_conv_pool.transpose(1, 2),
            raw_gate=t.g[None],
            raw_beta=t.b[None],
            A_log=t.A_log,
            dt_bias=t.dt_bias.view(-1),
            state_indices=t.slot,
            state=t.new_pool,
            output_gate=t.z,
            norm_weight=t.weight,
            lower_bound=t.lower_bound if shape.GATE == BOUNDED else None,
            norm_eps=EPS,
            output=t.y[None],
            backend="cute-dsl",
        )
        return t.y, t.new_conv_pool, t.new_pool

    return launch
