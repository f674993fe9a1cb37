"""The chunk function of flash_qla; it compiles at its first call and allocates its outputs itself."""

from __future__ import annotations

from functools import cache, partial
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from flash_qla import chunk_gated_delta_rule
from flash_qla.ops.gated_delta_rule.chunk import CHUNK_SIZE, build_cp_context
from flash_qla.utils.index import prepare_varlen_metadata

from gdnbench.launch import load_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from gdnbench import Params, Shape

gates = load_file(Path(__file__).parent.parent / "gates.py")


def bind(tensors, shape: Shape, params: Params) -> Callable[[], tuple[torch.Tensor, torch.Tensor]]:
    del params
    t = tensors
    if not all(shape.lengths):
        raise ValueError(f"FlashQLA takes no empty sequence: invalid sequence lengths: {list(shape.lengths)}")
    launch_gates, log_decay, beta = gates.bind_gates(t, is_log=True)
    context = lay_out(tuple(shape.lengths), shape.HV, t.q.device)
    call = partial(
        chunk_gated_delta_rule,
        t.q[None],
        t.k[None],
        t.v[None],
        log_decay[None],
        beta[None],
        scale=t.scale,
        initial_state=t.state,
        output_final_state=True,
        state_v_first=True,
        cu_seqlens=context.cu_seqlens,
        cp_context=context,
    )

    def run() -> tuple[torch.Tensor, torch.Tensor]:
        launch_gates()
        output, state = call()
        return output[0], state

    return run


@cache
def lay_out(lengths: tuple[int, ...], heads: int, device: torch.device):
    """How sequences are split among the SMs, and the chunks of both: as FlashQLA does by itself, but only once.

    By itself it waits for the GPU at the first call with a tensor of cu_seqlens, and keeps what it found for the last 4
    of them, which serves all layers of a model. Rounds take more workloads in turn.

    Args:
        lengths: tokens of each sequence.
        heads: value heads.
        device: of the tensors.

    Returns:
        FlashQLA's context, with cu_seqlens, int64 [N + 1].
    """
    ends = torch.tensor([0, *accumulate(lengths)])
    cu_seqlens = prepare_varlen_metadata(ends.to(device), ends)
    context = build_cp_context(cu_seqlens, enable_intra=True, num_v_heads=heads, chunk_size=CHUNK_SIZE)
    if context.is_intra:
        prepare_varlen_metadata(context.intra_cp_cu_seqlens, context.intra_cp_cu_seqlens.cpu())
    return context
