"""A small data set of flashinfer-bench, as others would write it, and what the tests of exchange share."""

import json
from pathlib import Path

from committed import ROOT

GOLDEN = Path(__file__).parent / "data" / "exchange"
TOYS = ROOT / "tests" / "toys"
DECODE = "decode_HQ4_HV8_K128_V128"

REFERENCE = """\
import torch


def run(x, weight, eps):
    wide = x.float()
    scale = torch.rsqrt((wide * wide).mean(-1, keepdim=True) + eps)
    total = torch.zeros(x.shape[0], dtype=torch.float32, device=x.device)
    total += wide.sum(-1)
    return (wide * scale * weight.float()).to(torch.bfloat16), total
"""

SOLUTION = """\
from .parts import normalised


def run(x, weight, eps, y, sums):
    y.copy_(normalised(x, weight, eps))
    sums.copy_(x.float().sum(-1))
"""

PARTS = """\
import torch


def normalised(x, weight, eps):
    return torch.nn.functional.rms_norm(x.float(), (x.shape[-1],), weight.float(), eps)
"""


def definition(**changes):
    """RMS norm of rows, and their sums."""
    return {
        "name": "rms_norm_h64",
        "op_type": "norm",
        "axes": {"num_rows": {"type": "var"}, "hidden_size": {"type": "const", "value": 64}},
        "inputs": {
            "x": {"shape": ["num_rows", "hidden_size"], "dtype": "bfloat16"},
            "weight": {"shape": ["hidden_size"], "dtype": "bfloat16"},
            "eps": {"shape": None, "dtype": "float32"},
        },
        "outputs": {
            "y": {"shape": ["num_rows", "hidden_size"], "dtype": "bfloat16"},
            "sums": {"shape": ["num_rows"], "dtype": "float32"},
        },
        "reference": REFERENCE,
        "description": "Rows over the root of their mean square.\nWith their sums.",
        "constraints": ["hidden_size == 64"],
        **changes,
    }


def solution(sources=None, **spec):
    """Destination-passing Python, in two files."""
    sources = sources or {"src/main.py": SOLUTION, "src/parts.py": PARTS}
    return {
        "name": "plain_torch",
        "definition": "rms_norm_h64",
        "author": "somebody",
        "spec": {"language": "python", "target_hardware": ["cpu", "cuda"], "entry_point": "src/main.py::run", **spec},
        "sources": [{"path": path, "content": content} for path, content in sources.items()],
    }


def line(rows, uuid="a", /, **inputs):
    """A workload."""
    given = {"x": {"type": "random"}, "weight": {"type": "random"}, "eps": {"type": "scalar", "value": 1e-6}, **inputs}
    return {"definition": "rms_norm_h64", "workload": {"axes": {"num_rows": rows}, "inputs": given, "uuid": uuid}}


def trace(rows, latency_ms, uuid="a", hardware="NVIDIA_B200"):
    """A trace of `plain_torch` that passed."""
    evaluation = {
        "status": "PASSED",
        "environment": {"hardware": hardware, "libs": {"torch": "2.9.0"}},
        "timestamp": "2026-05-04T03:02:01",
        "log": "",
        "correctness": {"max_relative_error": 1e-3, "max_absolute_error": "NaN"},
        "performance": {"latency_ms": latency_ms, "reference_latency_ms": 1.0, "speedup_factor": 2.0},
    }
    return {**line(rows, uuid), "solution": "plain_torch", "evaluation": evaluation}


def write(folder, **documents):
    """Files by name, a list as lines; gives their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, document in documents.items():
        lines = isinstance(document, list)
        path = folder / f"{name}.json{'l' if lines else ''}"
        path.write_text("\n".join(map(json.dumps, document)) + "\n" if lines else json.dumps(document))
        paths.append(str(path))
    return paths


def tree(folder):
    """The files of a folder, by path."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
