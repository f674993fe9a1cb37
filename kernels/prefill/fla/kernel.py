"""The chunk function of fla-core, in FLA's own kernels; it allocates its outputs itself, as in its users' code."""

from __future__ import annotations

import os
from functools import cache, partial
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

import torch

# FLA hands the call over to FlashQLA where that can be imported; it reads this at each call.
os.environ["FLA_FLASH_QLA"] = "0"
# FLA keeps what it derives from the last 4 cu_seqlens, which serves all layers of a model. Rounds take more workloads
# in turn, and would time deriving it. FLA reads this when it is imported.
os.environ.setdefault("FLA_TENSOR_CACHE_SIZE", "1024")

from fla.ops.gated_delta_rule import chunk_gated_delta_rule
from fla.ops.utils import prepare_chunk_indices, prepare_chunk_offsets

from gdnbench.launch import load_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from gdnbench import Params, Shape

CHUNK = 64  # FLA's own

gates = load_file(Path(__file__).parent.parent / "gates.py")


def bind(tensors, shape: Shape, params: Params) -> Callable[[], tuple[torch.Tensor, torch.Tensor]]:
    t = tensors
    cu_seqlens, chunk_indices = lay_out(tuple(shape.lengths), t.q.device)
    call = partial(
        chunk_gated_delta_rule,
        t.q[None],
        t.k[None],
        t.v[None],
        scale=t.scale,
        initial_state=t.state,
        output_final_state=True,
        state_v_first=True,
        cu_seqlens=cu_seqlens,
        chunk_indices=chunk_indices,
    )
    if params.GATES == "own":
        launch = None
        call = partial(
            call,
            g=t.a[None],
            beta=t.b[None],
            A_log=t.A_log,
            dt_bias=t.dt_bias,
            use_gate_in_kernel=True,
            use_beta_sigmoid_in_kernel=True,
        )
    else:
        launch, log_decay, beta = gates.bind_gates(t, is_log=True)
        call = partial(call, g=log_decay[None], beta=beta[None])

    def run() -> tuple[torch.Tensor, torch.Tensor]:
        if launch:
            launch()
        output, state = call()
        return output[0], state

    return run


@cache
def lay_out(lengths: tuple[int, ...], device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """What a serving engine derives from the lengths once for all layers, so that no call waits for the GPU.

    Returns:
        cu_seqlens, int64 [N + 1]; the sequence of each chunk and its place in that, int64 [chunks, 2].
    """
    ends = torch.tensor([0, *accumulate(lengths)])
    cu_seqlens = ends.to(device)
    prepare_chunk_offsets(cu_seqlens, CHUNK)  # the call finds it in FLA's cache
    return cu_seqlens, prepare_chunk_indices(cu_seqlens, CHUNK, cu_seqlens_cpu=ends)
