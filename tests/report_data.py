"""Runs made up for the report's tests: many kernels at three workloads, with all that a report has to bear."""

import re
from html.parser import HTMLParser

import numpy as np
from decode_workloads import decode_at
from run_data import case, failed, measured, store, store_times, versus
from sweep_data import JOINT, store_sweep

from gdnbench.model.status import Role, Status

WORKLOADS = (decode_at(B=1), decode_at(B=8), decode_at(B=64))
HOSTILE = "</script><script>alert(1)</script> <b>&amp;</b> \u2028 {{ 7*7 }}"
KERNELS = [f"decode-k{number}" for number in range(12)]
MACHINE = {
    "gpu": {"name": "NVIDIA H200", "driver": "580.1", "sm_max_mhz": 1980, "l2_bytes": 62_914_560},
    "versions": {"python": "3.12.3", "triton": "3.6.0"},
}


def rows_of(workload):
    """A baseline, its control, two floors, kernels that are ever slower, and two failures."""
    scale = 4.0 + workload.B / 4
    kernels = [
        measured(
            case(label, workload=workload),
            scale * (1.02 + 0.03 * number),
            versus(1.2 / (1 + 0.03 * number), "faster" if number < 4 else "unclear" if number == 4 else "slower"),
            registers=30 + number,
            spill_bytes=312 if number == 9 else 0,
            shared_bytes=1024,
        )
        for number, label in enumerate(KERNELS)
    ]
    return [
        measured(case("decode-fla", Role.BASELINE, workload), scale * 1.25),
        *kernels,
        measured(case("decode-floor-copy", Role.FLOOR, workload), scale),
        measured(case("decode-floor-empty", Role.FLOOR, workload), 2.0),
        measured(case("decode-fla", Role.CONTROL, workload), scale * 1.25, versus(1.0002, "same")),
        failed(case("decode-broken", workload=workload), Status.BUILD_FAILED, f"kernel.cu(3): {HOSTILE}\n  x = 1"),
        failed(case("decode-hopper", workload=workload), Status.UNSUPPORTED, "needs a GPU of another kind"),
    ]


def store_run(results, run_id="20260102-030405-h200-decode-main", *, samples=True, **more):
    """A run's folder with everything in it."""
    folder = results / run_id
    folder.mkdir()
    rows = [row for workload in WORKLOADS for row in rows_of(workload)]
    described = {"label": "main", "machine": MACHINE, "warnings": [f"a warning that says {HOSTILE}"], **more}
    store(folder, rows, run_id=run_id, **described)
    if samples:
        store_times(folder, run_id, [row for row in rows if row.timing], lambda drawn: 1 + 0.02 * np.abs(drawn), 40)
    return folder


def store_swept(results, run_id="20260102-040506-h200-decode-sweep"):
    folder = results / run_id
    folder.mkdir()
    store_sweep(folder, JOINT, without=[{"BV": 4, "WARPS": 8}], run_id=run_id, machine=MACHINE)
    return folder


class Elements(HTMLParser):
    """Every element of a page with its attributes, and the page's text by element."""

    def __init__(self, text):
        super().__init__()
        self.found, self.texts, self.closed, self._open = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        self._open.append(tag)

    def handle_endtag(self, tag):
        self.closed.append(tag)
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data):
        self.texts.append((self._open[-1] if self._open else "", data))

    def all(self, tag):
        return [attributes for name, attributes in self.found if name == tag]

    @property
    def seen(self):
        """What is read on the page: no scripts, no style."""
        return re.sub(r"\s+", " ", " ".join(data for tag, data in self.texts if tag not in {"script", "style"}))
