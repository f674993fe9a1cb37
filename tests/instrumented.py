"""Compiles Triton kernels as Proton instruments them, for an H200 that is not here; prints what came of each as JSON.

Run in a process of its own, with a Triton cache of its own: Proton's hook changes the compiler for good.
"""

import json
import re
import sys
from types import SimpleNamespace

import torch
import triton
from decode_workloads import decode_at
from triton.backends.compiler import GPUTarget
from triton.profiler import language
from triton.profiler.hooks import InstrumentationHook

from gdnbench.catalog.catalog import load_catalog
from gdnbench.catalog.select import find_variant
from gdnbench.launch import Workspace, load_numerics
from gdnbench.model.case import Case
from gdnbench.profile.worker.case import PlacedCase
from gdnbench.profile.worker.proton import MODE, Jit, capacity_of

H200 = SimpleNamespace(
    get_current_device=lambda: 0,
    get_current_stream=lambda _: 0,
    get_current_target=lambda: GPUTarget("cuda", 90, 32),
    utils=SimpleNamespace(get_device_properties=lambda _: {"max_shared_mem": 232448}),
)


def stage_of(label):
    catalog, workload = load_catalog(), decode_at(B=1)
    entry, variant = find_variant(catalog, "decode", label)
    numerics = load_numerics(entry.op, catalog.op_folders["decode"])
    workspace = Workspace.make(entry.op, numerics, workload, seed=0, device="cpu", scenario="typical")
    return PlacedCase(entry, Case(entry.at(variant, workload), workload), (workspace,))


def main(labels):
    triton.runtime.driver.set_active(H200)
    torch.cuda.get_device_capability = lambda: (9, 0)
    jits = [Jit(stage_of(label)) for label in labels]
    plain = [(jit.makes_our_code(), jit.compile()) for jit in jits]
    language.enable_semantic("triton")
    InstrumentationHook(MODE).activate()
    told = [_told(same, code, jit.compile()) for jit, (same, code) in zip(jits, plain, strict=True)]
    print(json.dumps(dict(zip(labels, told, strict=True))))


def _told(same, plain, traced):
    return {
        "same": same,
        "scopes": re.findall(r'proton\.record start "(\w+)"', traced.asm["ttgir"]),
        "plain_scopes": re.findall(r"proton\.record", plain.asm["ttgir"]),
        "bytes": traced.metadata.profile_scratch_size,
        "plain_bytes": plain.metadata.profile_scratch_size,
        "warps": traced.metadata.num_warps,
        "capacity": capacity_of(traced.metadata),
        "clocks": len(re.findall(r"%clock\b", traced.asm["ptx"])),
    }


main(sys.argv[1:])
