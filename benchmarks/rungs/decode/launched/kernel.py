"""decode-rungs-triton at its defaults, launched from Python: as it is, through the autotuner, within torch.compile."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import torch
import triton

if TYPE_CHECKING:
    from collections.abc import Callable

    from gdnbench import Params, Workload

_CHOICES = {"BK": 128, "TILE": "vk", "EVICT": "none", "LATE": 0}
_ROWS, _WARPS = 8, 8


def bind(tensors, workload: Workload, params: Params) -> Callable[[], tuple[torch.Tensor, torch.Tensor]]:
    t, (step, how) = tensors, _step(params.AUTOTUNED)
    constants = {name: getattr(workload, name) for name in ("HQ", "HV", "K", "V")} | _CHOICES | how
    grid, scale = (workload.V // _ROWS, workload.B * workload.HV), t.scale
    outputs = torch.empty_like(t.v), torch.empty_like(t.state)

    def launch(q, k, v, state, A_log, dt_bias, a, b, output, new_state):
        step[grid](q, k, v, state, A_log, dt_bias, a, b, scale, output, new_state, **constants)
        return output, new_state

    if params.COMPILED:
        launch = torch.compile(launch, dynamic=False, fullgraph=True)
    return lambda: launch(t.q, t.k, t.v, t.state, t.A_log, t.dt_bias, t.a, t.b, *outputs)


@cache
def _step(autotuned: int):
    """The function to launch, and the arguments that say how.

    The autotuner's two configurations are the same code, so it need not time them: it takes the first.
    """
    function = _module().gdn_decode_rungs
    if not autotuned:
        return function, {"BV": _ROWS, "num_warps": _WARPS, "num_stages": 1}
    configs = [triton.Config({"BV": _ROWS}, num_warps=_WARPS, num_stages=stages) for stages in (1, 2)]
    return triton.autotune(configs, key=["HQ", "HV", "K", "V"], do_bench=_called_once)(function), {}


def _called_once(call: Callable[[], None], quantiles: tuple[float, ...]) -> list[float]:
    call()
    return [0.0 for _ in quantiles]


@cache
def _module():
    path = Path(__file__).parent.parent / "triton" / "kernel.py"
    spec = importlib.util.spec_from_file_location("gdn_decode_rungs", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
