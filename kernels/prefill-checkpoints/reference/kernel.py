"""The prefill in eager torch, fp32, all sequences side by side, chunk after chunk; states are taken out on the way."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from gdnbench.launch import load_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from gdnbench import Params, Shape

prefill = load_file(Path(__file__).parents[2] / "prefill" / "reference" / "kernel.py")


def bind(tensors, shape: Shape, params: Params) -> Callable[[], tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    del params
    places = [(n, number) for n, length in enumerate(shape.lengths) for number in range(length // shape.EVERY)]
    sequence, number = torch.tensor(places, device=tensors.q.device).unbind(1)
    tables = prefill.lay_out(shape.lengths, tensors.q.device)
    return partial(gdn_prefill, tensors, tables, shape.EVERY // prefill.CHUNK, (number, sequence))


def gdn_prefill(t, tables, step, kept):
    """By chunks; a checkpoint every `step` of them. `kept` are the numbers and sequences of those that are wanted."""
    tokens, is_token, places = tables
    prepared = prefill.prepare(t.q, t.k, t.v, t.A_log, t.dt_bias, t.a, t.b, tokens, is_token)
    state, outputs, checkpoints = t.state, [], []
    for chunk in range(tokens.shape[1]):
        output, state = prefill.take_chunk(state, *(x[:, chunk] for x in prepared))
        outputs.append(output)
        if (chunk + 1) % step == 0:
            checkpoints.append(state)
    rows = torch.stack(outputs, dim=1).transpose(2, 3).flatten(0, 2)
    return (t.scale * rows[places]).bfloat16(), state, torch.stack(checkpoints)[kept]
