"""The chunk function of fla-core, in FLA's own kernels; norms, gates and betas are worked out by these.

With a bound on the gate it takes tensor cores for the tokens of a tile, too (`safe_gate`); by softplus it may not, as
powers of two overflow, and takes one pair of tokens after the other.
"""

from __future__ import annotations

import os
from functools import cache, partial
from itertools import accumulate
from typing import TYPE_CHECKING

import torch

# FLA hands the call over to FlashKDA where that can be imported; it reads this at each call.
os.environ["FLA_FLASH_KDA"] = "0"
# FLA keeps what it derives from the last 4 cu_seqlens, which serves all layers of a model. Rounds take more workloads
# in turn, and would time deriving it. FLA reads this when it is imported.
os.environ.setdefault("FLA_TENSOR_CACHE_SIZE", "1024")

from fla.ops.kda import chunk_kda

if TYPE_CHECKING:
    from collections.abc import Callable

    from gdnbench import Params, Shape

BOUNDED = 1


def bind(tensors, shape: Shape, params: Params) -> Callable[[], tuple[torch.Tensor, torch.Tensor]]:
    del params
    t, is_bounded = tensors, shape.GATE == BOUNDED
    cu_seqlens, on_host = ends(tuple(shape.lengths), t.q.device)
    call = partial(
        chunk_kda,
        t.q[None],
        t.k[None],
        t.v[None],
        t.g[None],
        t.b[None],
        A_log=t.A_log,
        dt_bias=t.dt_bias.flatten(),
        scale=t.scale,
        initial_state=t.state,
        output_final_state=True,
        use_qk_l2norm_in_kernel=True,
        use_gate_in_kernel=True,
        use_beta_sigmoid_in_kernel=True,
        safe_gate=is_bounded,
        lower_bound=t.lower_bound if is_bounded else None,
        state_v_first=True,
        cu_seqlens=cu_seqlens,
        cu_seqlens_cpu=on_host,
    )

    def run() -> tuple[torch.Tensor, torch.Tensor]:
        output, state = call()
        return output[0], state

    return run


@cache
def ends(lengths: tuple[int, ...], device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """The same cu_seqlens for all calls, int64 [N + 1], so that FLA derives chunks from it once; and on the host."""
    on_host = torch.tensor([0, *accumulate(lengths)])
    return on_host.to(device), on_host
