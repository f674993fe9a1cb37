"""Traces of Proton and recordings of ours: cut from runs on an H200, and made up."""

import gzip
import json
from pathlib import Path

from decode_workloads import decode_at

from gdnbench.model.case import Case, Variant
from gdnbench.model.declaration import Params
from gdnbench.profile.recording import Recording

RECORDED = Path(__file__).parent / "data" / "proton"
CLOCK32 = RECORDED / "clock32.chrome_trace.gz"  # decode-triton at B=1: 4 launches, 4 warps of each of 4 blocks
EIGHT = RECORDED / "b8.chrome_trace.gz"  # at B=8, with a 64-bit clock: 4 launches, 3 warps of each of 6 blocks
CUPTI = RECORDED / "cupti.chrome_trace"  # 20 launches at B=1, a flush before each
SCOPES = ["load_state", "load_qkv", "gates", "update", "store_state", "store_output"]


def event(name, begin, cycles, *, core=0, block=0, warp=0, line=0):
    return {
        "name": name,
        "ph": "X",
        "pid": f"kernel Core{core} CTA{block}",
        "tid": f"warp {warp} (line {line})",
        "ts": begin,
        "dur": cycles / 1e3,
        "args": {"Frequency (MHz)": 1000.0},
    }


def write_trace(path, events, *, packed=False):
    content = json.dumps({"displayTimeUnit": "ns", "traceEvents": events}).encode()
    path.write_bytes(gzip.compress(content) if packed else content)
    return path


def recording(**changes):
    case = Case(
        Variant("decode-triton", "decode-triton", params=Params({"BV": 16, "WARPS": 16, "STAGES": 1})), decode_at(B=1)
    )
    return Recording(
        **{
            "op": "decode",
            "case": case,
            "gpu": "NVIDIA H200",
            "triton": "3.6.0",
            "times_us": {"plain": [4.4, 4.5, 4.3], "instrumented": [5.3, 5.5, 5.4]},
            "trace": CLOCK32.name,
            "mode": "default:optimizations=clock32",
            "launches": 3,
            "capacity": 32,
            "sm_mhz": (1979.0, 1981.0),
            **changes,
        }
    )


def store(folder, **changes):
    """A recording on disk, its trace beside it."""
    (folder / CLOCK32.name).write_bytes(CLOCK32.read_bytes())
    path = folder / "20261121-203000-h200-B1-qk4_v8.json"
    recording(**changes).write(path)
    return path
