"""Run where Triton interprets: inverses by the Triton prefill, and kernels through all gates; prints lines of JSON.

Its argument names the kernels.
"""

import json
import sys

import torch
import triton
import triton.language as tl
from bundled import CATALOG

from gdnbench.catalog.select import select_variants
from gdnbench.launch.numerics import load_file
from gdnbench.launch.triton_rounding import round_to_nearest
from gdnbench.model.case import Case
from gdnbench.store.journal import Examined
from gdnbench.verify.interpret import interpret_all
from gdnbench.workers.task import Phase, Task

invert = None


class Lines:
    def send(self, event):
        if isinstance(event, Examined):
            worst = {}
            for gate in event.gates:
                worst[gate.gate] = max(gate.worst, worst.get(gate.gate, 0.0))
            scenarios = sorted({gate.scenario for gate in event.gates})
            print(json.dumps([event.case, event.status, event.reason, scenarios, worst]), flush=True)


@triton.jit
def inverted(coupling, inverse, PRODUCTS: tl.constexpr):
    at = tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :]
    tl.store(inverse + at, invert(tl.load(coupling + at), PRODUCTS))


def couplings():
    """Strictly lower triangular: of 64 equal keys that are written whole, and of random unit keys."""
    keys = torch.nn.functional.normalize(torch.randn(64, 32, generator=torch.Generator().manual_seed(0)), dim=-1)
    return {"equal keys": torch.ones(64, 64).tril(-1), "random keys": (keys @ keys.T).tril(-1)}


def invert_all():
    global invert  # noqa: PLW0603  # Triton finds the functions that a function calls among its module's names
    round_to_nearest()
    invert = load_file(CATALOG.entries["prefill-triton"].source).invert
    for name, coupling in couplings().items():
        right = torch.linalg.inv(torch.eye(64, dtype=torch.float64) + coupling)
        for products in ("bf16", "tf32", "tf32x3"):
            found = torch.empty(64, 64)
            inverted[(1,)](coupling, found, products)
            error = float((found - right).abs().max())
            print(json.dumps([f"{name} {products}", error]), flush=True)


invert_all()
at = CATALOG.entries["prefill-triton"].op.workload({"lengths": (65, 0, 3), "HQ": 1, "HV": 2, "K": 32, "V": 32})
cases = tuple(Case(variant, at) for variant in select_variants(CATALOG, "prefill", sys.argv[1]))
roots = tuple(map(str, CATALOG.roots))
interpret_all(Task(Phase.INTERPRET, "cpu", roots, "prefill", cases, seed=3, step_limit_s=60.0), Lines())
