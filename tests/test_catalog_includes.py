"""Which files a source includes or imports, and which kernels an edit of one marks as changed."""

import json
import shutil
from itertools import product
from pathlib import Path

import pytest
from faults import Gdnbench
from write_kernels import write_changed

from gdnbench.catalog.catalog import load_catalog
from gdnbench.catalog.entry import included_files
from gdnbench.catalog.new import make_kernel
from gdnbench.codegen.build import Job, build
from gdnbench.model.case import CodeState, same_sources

SLOTS = list(product(("decode-split", "verify-rollback", "verify-tree"), ("floor-copy", "floor-empty", "v1")))
SHARED = "nvfp4-gemm-v3 nvfp4-dual-gemm-v1 nvfp4-grouped-gemm-v1"
RING = "nvfp4-gemm-v4 nvfp4-dual-gemm-v2 nvfp4-grouped-gemm-v2"
STATES = [
    *product(("decode-pool", "kda-decode", "verify"), ("floor-copy", "floor-empty", "v1", "v2")),
    ("verify", "v3"),
    *product(("kda-verify", "kda-layer"), ("v2",)),
    *product(("kda-decode", "kda-verify"), ("v3",)),
    *SLOTS,
    ("decode-ucache", "v1"),
]
TILES = ["kda-decode-v3", "kda-verify-v3", "kda-layer-v2"]
CHANNELS = [f"kda-{op}-floor-{each}" for op in ("decode", "verify", "layer") for each in ("copy", "empty")]
CHANNELS += ["kda-decode-v1", "kda-verify-v1"]
BUNDLED = Path(__file__).parents[1] / "kernels"


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    return load_catalog([Path(shutil.copytree(BUNDLED, tmp_path_factory.mktemp("copied") / "kernels"))])


@pytest.mark.parametrize(
    ("header", "kernels"),
    [
        ("include/gdn/cluster.cuh", "fp8-gemm-pos-v3 kda-layer-v2 kda-prefill-v8"),
        (
            "include/gdn/products.cuh",
            "fp8-gemm-pos-v1 fp8-gemm-pos-v2 fp8-gemm-pos-v3 fp8-gemm-pos-v4 "
            f"nvfp4-gemm-v1 nvfp4-gemm-v2 {SHARED} {RING}",
        ),
        ("nvfp4-gemm/shares.cuh", SHARED),
        ("nvfp4-gemm/ring.cuh", RING),
        ("include/gdn/channel_decays.cuh", " ".join(["kda-decode-v2", "kda-verify-v2", *TILES, *CHANNELS])),
        ("include/gdn/channel_tokens.cuh", " ".join(TILES)),
        ("include/gdn/state_rows.cuh", " ".join([*CHANNELS, *(f"{op}-{each}" for op, each in STATES)])),
        ("fp8-gemm-pos/persistent.cuh", "fp8-gemm-pos-v1 fp8-gemm-pos-v2"),
        ("nvfp4-gemm/v1/memory.cuh", "nvfp4-gemm-v1"),
        ("nvfp4-gemv/bytes.cuh", "nvfp4-gemv-v2 nvfp4-gemv-v3"),
        (
            "prefill/segments.cuh",
            "kda-prefill-v1 kda-prefill-v5 kda-prefill-v6 kda-prefill-v8 prefill-checkpoints-v1 "
            "prefill-v3 prefill-v4 prefill-v6 prefill-v7 prefill-v8 prefill-v9",
        ),
        ("prefill/triton/kernel.py", "kda-prefill-triton prefill-triton"),
        ("prefill/gates.py", ""),
        ("include/gdn/nvfp4_native.py", "nvfp4-dual-gemm-native nvfp4-gemm-native"),
        (
            "include/gdn/tensor_memory.py",
            "nvfp4-dual-gemm-cute nvfp4-dual-gemm-native nvfp4-gemm-cute nvfp4-gemm-native",
        ),
    ],
)
def test_an_edit_of_a_shared_file_marks_the_kernels_that_include_it(copied, header, kernels):
    hashes = {name: entry.source_hash() for name, entry in copied.entries.items()}
    path = copied.roots[0] / header
    before = path.read_text()
    path.write_text(f"{before}\n")
    edited = load_catalog(copied.roots).entries  # a loaded catalog reads each kernel's sources once
    marked = {name for name, entry in edited.items() if entry.code_state(hashes[name]) is CodeState.CHANGED}
    path.write_text(before)
    assert marked == set(kernels.split())


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ('#include "a.cuh"\n#include <cuda_bf16.h>\n', "a.cuh sub/b.cuh c.cuh"),
        ("#if 0\n  #  include<sub/b.cuh>\n#else\n#include <d.h>\n#endif\n", "sub/b.cuh c.cuh a.cuh d.h"),
        ("#define NAME <d.h>\n#include NAME\n", "a.cuh sub/b.cuh c.cuh d.h"),
        ('// #include "a.cuh"\nint x;\n', ""),
        ('#include "sub/../kernel.cu"\n#include "absent.cuh"\n', ""),
    ],
)
def test_includes_are_walked_by_what_stands_in_the_text(tmp_path, source, names):
    files = {"kernel.cu": source, "a.cuh": '#include "sub/b.cuh"', "d.h": "#pragma once"}
    files |= {"sub/b.cuh": '#include "c.cuh"\n#include <a.cuh>', "sub/c.cuh": '#include "../sub/b.cuh"'}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    found = [name for name, _ in included_files(tmp_path / "kernel.cu", [tmp_path])]
    assert found == names.split()


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("from .tiles import load\nimport gates\nfrom gates import x", "tiles.py sub/near.py sub/far.py gates.py"),
        ("def late():\n    from . import gates, absent", "gates.py"),
        ("from .sub import near", "sub/near.py sub/far.py gates.py"),
        ('load_file(Path(__file__).parent / "sub" / "far.py")', "sub/far.py gates.py sub/near.py"),
        ('load_file(Path(__file__).parents[1]/"op"/"gates.py")', "op/gates.py"),
        ('load_file(Path(__file__).parents[9] / "gates.py"); load_file(OPS / "gates.py")', ""),
        ("from .kernel import y\nfrom ..gates import x", ""),
        ("from .gates import (", ""),
    ],
)
def test_imports_are_walked_by_what_stands_in_the_text(tmp_path, source, names):
    files = {"kernel.py": source, "tiles.py": "from .sub.near import x", "gates.py": ""}
    files |= {"sub/near.py": "from .far import x", "sub/far.py": "from ..gates import x\nfrom .near import y"}
    for name, text in files.items():
        (tmp_path / "op" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "op" / name).write_text(text)
    folder = tmp_path / "op"
    found = included_files(folder / "kernel.py", [folder])
    assert [name for name, _ in found] == names.split()
    assert [path.relative_to(folder).as_posix() for _, path in found] == [
        name.removeprefix("op/") for name in names.split()
    ]


SOFTPLUS = """import triton
import triton.language as tl


@triton.jit
def softplus(x):
    return tl.maximum(x, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(x)))
"""
OWN = """@triton.jit
def softplus(x):
    return tl.maximum(x, 0.0) + log1p(tl.exp(-tl.abs(x)))
"""


@pytest.mark.parametrize(("place", "module"), [("decode", "gates"), ("include/gdn", "gdn.gates")])
def test_a_kernel_in_triton_shares_a_file(tmp_path, place, module):
    """It is built, interpreted and exported with it, and by it."""
    root = tmp_path / "more"
    importing = ("from gdnbench import trace", f"from gdnbench import trace\nfrom .{module} import softplus")
    write_changed(load_catalog([BUNDLED]).entries["decode-triton"], "decode-shares", root, importing, (OWN, ""))
    (root / place).mkdir(parents=True, exist_ok=True)
    shared = root / place / "gates.py"
    shared.write_text(SOFTPLUS)
    entry = load_catalog([BUNDLED, root]).entries["decode-shares"]
    job = Job(entry, entry.default, entry.op.default, "sm_90")
    before, key, made = entry.source_hash(), job.key, build(job)
    gdnbench = Gdnbench(tmp_path, (root,))
    assert gdnbench("verify", "decode-shares", "--quick").code == 0
    assert gdnbench("exchange", "export", "decode-shares", "--shape", "B=1", "--to", str(tmp_path)).code == 0
    [solution] = tmp_path.glob("solutions/**/*.json")
    sources = {each["path"]: each["content"] for each in json.loads(solution.read_text())["sources"]}
    assert sources[f"{module.replace('.', '/')}.py"] == shared.read_text()
    shared.write_text(SOFTPLUS.replace("maximum", "minimum"))
    assert (entry.source_hash() == before, job.key == key) == (False, False)
    assert build(job).cubin != made.cubin
    assert gdnbench("verify", "decode-shares", "--quick").code == 3


def test_a_kernel_elsewhere_finds_shared_headers_of_its_root_then_the_bundled_ones(tmp_path):
    make_kernel("decode-mine", "decode-v4", tmp_path)
    own = tmp_path / "include" / "gdn" / "warp.cuh"
    own.parent.mkdir(parents=True)
    own.write_text("// mine")
    headers = dict(load_catalog([BUNDLED, tmp_path]).entries["decode-mine"].included())
    assert headers["gdn/warp.cuh"] == own
    assert headers["gdn/math.cuh"] == BUNDLED / "include" / "gdn" / "math.cuh"


def test_hashes_by_the_first_rule_are_of_the_code_that_the_table_says():
    rows = [line.split(",") for line in (BUNDLED / "source-hashes.csv").read_text().splitlines()[1:]]
    assert rows
    for (_, old, new), (_, _, other) in zip(rows, [*rows[1:], rows[0]], strict=True):
        assert same_sources(old, new)
        assert same_sources(new, old)
        assert not same_sources(old, other)
