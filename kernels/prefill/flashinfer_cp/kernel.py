"""The chunk function of flashinfer, told whether to split sequences; it writes outputs that it is given."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from flashinfer.gdn_prefill import chunk_gated_delta_rule

from gdnbench.launch import load_file

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from gdnbench import Params, Shape

gates = load_file(Path(__file__).parent.parent / "gates.py")

USE_CP = {"auto": "auto", "off": False, "on": True}


def bind(tensors, shape: Shape, params: Params) -> Callable[[], tuple[torch.Tensor, torch.Tensor]]:
    t = tensors
    if not all(shape.lengths):
        raise ValueError("FlashInfer's kernels leave the final state of an empty sequence unwritten")
    launch_gates, decay, beta = gates.bind_gates(t, is_log=False)
    call = partial(
        chunk_gated_delta_rule,
        t.q,
        t.k,
        t.v,
        g=decay,
        beta=beta,
        scale=t.scale,
        initial_state=t.state,
        output_final_state=True,
        cu_seqlens=t.cu_seqlens,
        use_qk_l2norm_in_kernel=False,
        output=t.output,
        output_state=t.new_state,
        max_seqlen=max(shape.lengths),
        use_cp=USE_CP[params.CP],
    )

    def run() -> tuple[torch.Tensor, torch.Tensor]:
        launch_gates()
        return call()

    return run
