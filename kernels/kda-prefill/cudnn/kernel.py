"""The function of the cuDNN front end, which builds a graph for each set of shapes at its first call, and keeps it.

On Hopper it takes the engine `kda_hopper_cuda`, compiled by NVRTC, where it finds CUDA's headers, and slower ones where
it does not; the names of the launches tell which. Norms, gates and betas are worked out inside.
"""

from __future__ import annotations

from functools import cache, partial
from itertools import accumulate
from typing import TYPE_CHECKING

import torch
from cudnn.linear_attention.ops import kimi_delta_attention

if TYPE_CHECKING:
    from collections.abc import Callable

    from gdnbench import Params, Shape


def bind(tensors, shape: Shape, params: Params) -> Callable[[], tuple[torch.Tensor, torch.Tensor]]:
    del params
    t = tensors
    return partial(
        kimi_delta_attention,
        t.q,
        t.k,
        t.v,
        t.g,
        t.b,
        ends(tuple(shape.lengths), t.q.device),
        scale=t.scale,
        initial_state=t.state,
        output_final_state=True,
        use_qk_l2norm_in_kernel=True,
        use_beta_sigmoid_in_kernel=True,
        safe_gate=True,
        gate_lower_bound=t.lower_bound,
        a_log=t.A_log,
        dt_bias=t.dt_bias,
    )


@cache
def ends(lengths: tuple[int, ...], device: torch.device) -> torch.Tensor:
    """cu_seqlens as the kernel reads them, int32 [N + 1]: int64 would be narrowed by a launch in each call."""
    return torch.tensor([0, *accumulate(lengths)], dtype=torch.int32, device=device)
