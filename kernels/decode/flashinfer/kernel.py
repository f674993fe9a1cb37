"""The upstream function of flashinfer; it compiles at its first call and writes outputs that it is given."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from flashinfer.gdn_decode import gated_delta_rule_decode_pretranspose

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from gdnbench import Params, Shape


def bind(tensors, shape: Shape, params: Params) -> Callable[[], tuple[torch.Tensor, torch.Tensor]]:
    del shape, params
    t = tensors
    return partial(
        gated_delta_rule_decode_pretranspose,
        t.q,
        t.k,
        t.v,
        state=t.new_state,
        A_log=t.A_log,
        a=t.a,
        dt_bias=t.dt_bias,
        b=t.b,
        scale=t.scale,
        output=t.output,
        use_qk_l2norm=False,
    )
