"""Run where Triton interprets: Triton kernels through all gates; prints one JSON line a variant.

Its arguments are a folder of more kernels and the values of BV.

Then what arithmetic in bf16 gives and what it should, and conversions to fp8 likewise.
"""

import json
import sys
from pathlib import Path

from decode_workloads import decode_at
from narrow_kernels import computed_in_bf16, converted_to

from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.catalog.select import select_variants
from gdnbench.model.case import Case
from gdnbench.store.journal import Examined
from gdnbench.verify.interpret import interpret_all
from gdnbench.workers.task import Phase, Task


class Lines:
    def send(self, event):
        if isinstance(event, Examined):
            worst = {gate.gate: gate.worst for gate in event.gates}
            scenarios = sorted({gate.scenario for gate in event.gates})
            print(json.dumps([event.case, event.status, event.reason, scenarios, worst]))


def main(extra_root, *blocks):
    roots = (default_roots()[0], extra_root)
    catalog = load_catalog(roots)
    cases = tuple(
        Case(variant, workload)
        # A program takes 6 ms to interpret, so one head does for the many programs of a small block.
        for workload, wanted in (
            (
                decode_at(HQ=1, HV=1),
                [
                    *("decode-spoils:BV=64", "decode-unscaled:BV=64"),
                    *("decode-reads-past:BV=64", "decode-writes-past:BV=64"),
                    *(f"{kernel}:BV={block}" for kernel in ("decode-triton", "decode-triton-one") for block in blocks),
                ],
            ),
            (
                decode_at(B=2, HQ=2, HV=4),
                [
                    *("decode-triton:BV=64", "decode-triton-one:BV=64"),
                    *("decode-triton-tma:BV=32:TILES=2", "decode-triton-ws:BV=32:TILES=4"),
                ],
            ),
        )
        for variant in select_variants(catalog, "decode", ",".join(wanted))
    )
    task = Task(Phase.INTERPRET, "cpu", tuple(map(str, roots)), "decode", cases, seed=3, step_limit_s=60.0)
    interpret_all(task, Lines())
    print(json.dumps(["bf16", *computed_in_bf16()]))
    for name in ("float8_e4m3fn", "float8_e5m2"):
        print(json.dumps([name, *converted_to(name)]))


main(Path(sys.argv[1]), *sys.argv[2:-1])
