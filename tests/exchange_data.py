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


OP = """\
from gdnbench import Axis, Op, RmsGate, TensorSpec, WorkloadSpec

op = Op(
    name="rms",
    title="Rows over the root of their mean square, and their sums.",
    workloads=WorkloadSpec(axes=(Axis("M", default=3), Axis("N", default=64, compile_time=True))),
    inputs=(TensorSpec("x", ("M", "N"), "bf16"), TensorSpec("weight", ("N",), "bf16")),
    scalars=("eps",),
    outputs=(TensorSpec("y", ("M", "N"), "bf16"), TensorSpec("sums", ("M",), "fp32")),
    gates=(RmsGate("y", limit=0.01), RmsGate("sums", limit=0.01)),
)
"""
NUMERICS = """\
import torch


def make_inputs(workload, seed, device, scenario):
    random = torch.Generator(device="cpu").manual_seed(seed)
    drawn = {name: torch.randn(shape, generator=random) for name, shape in
             {"x": (workload.M, workload.N), "weight": (workload.N,)}.items()}
    return {name: each.bfloat16().to(device) for name, each in drawn.items()}, {"eps": 1e-6}


def oracle(tensors, scalars):
    x, weight = tensors["x"].double(), tensors["weight"].double()
    y = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + scalars["eps"]) * weight
    return {"y": y, "sums": x.sum(-1)}
"""


def write_op(root):
    """The op that the Definition is of, without kernels, in a folder of kernels."""
    (root / "rms").mkdir(parents=True)
    (root / "rms" / "op.py").write_text(OP)
    (root / "rms" / "numerics.py").write_text(NUMERICS)


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


def write(folder, **documents):
    """Files by name; gives their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.json" for name in documents]
    for path, document in zip(paths, documents.values(), strict=True):
        path.write_text(json.dumps(document))
    return list(map(str, paths))


def read_lines(folder):
    """The lines of workloads of a data set."""
    files = sorted((folder / "workloads").rglob("*.jsonl"))
    return [json.loads(line) for path in files for line in path.read_text().splitlines()]


def tree(folder):
    """The files of a folder, by path."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
