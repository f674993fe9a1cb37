"""Recorded profiles as evidence: the kernels are the bundled ones and the specimens, each with one flaw."""

import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path

from committed import RESULTS
from decode_workloads import decode_at

from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.catalog.select import find_variant
from gdnbench.diagnose.evidence import Evidence
from gdnbench.diagnose.launch import RunTimes
from gdnbench.inspect.compiled import Subject, build_subjects, gpu_size_of
from gdnbench.process.events import ignore
from gdnbench.profile.ncu.store import read_profiles
from gdnbench.store.info import read_info, write_info

SPECIMENS = Path(__file__).parent / "specimens"
RECORDED = Path(__file__).parent / "data" / "ncu"


@cache
def kernels():
    return load_catalog([*default_roots(), SPECIMENS])


def recording(name):
    return RECORDED / f"{name}.csv.gz"


@cache
def recorded(name):
    """Evidence from each launch of a recording, `decode-v1-B1`."""
    return tuple(
        _evidence(profile.label, profile.workload, profile=profile) for profile in read_profiles(recording(name))
    )


def measured(time_us, *, empty=None, copy=None, gpu="h200", copy_bytes=1_048_576, launches=1, **times_us):
    times = {"decode-floor-empty": empty, "decode-floor-copy": copy, **times_us}
    known = {label.replace("_", "-"): time for label, time in times.items() if time is not None}
    return RunTimes(
        run_id="a-run",
        gpu=gpu,
        time_us=time_us,
        times_us=known,
        empty="decode-floor-empty" if empty else "",
        copy="decode-floor-copy" if copy else "",
        copy_bytes=copy_bytes,
        launches=launches,
    )


def copy_run(folder, run_id="20261121-185458-h200-decode-main"):
    """Copies a run of the repository, less its samples, as if the kernels had not changed since; gives the run."""
    path = folder / run_id
    shutil.copytree(RESULTS / run_id, path, ignore=shutil.ignore_patterns("*.parquet", "nvbench"))
    info = read_info(path)
    entries = kernels().entries
    write_info(path, replace(info, sources={name: entries[name].source_hash() for name in info.sources}))
    return path


@cache
def _built(label, batch):
    entry, variant = find_variant(kernels(), "decode", label)
    workload = decode_at(B=batch)
    subject = Subject(label, entry, entry.at(variant, workload), workload)
    [found] = build_subjects([subject], ["sm_90"], lambda arch: gpu_size_of(arch, ()), ignore)
    return found


def coded(label, batch=1, times=None):
    """Evidence without counters: what the compiler made of a kernel for the H200, and perhaps times."""
    found = _built(label, batch)
    return _evidence(label, decode_at(B=batch), compiled=found, milestones=found.milestones, measured=times)


def in_order(evidence, label):
    """The evidence, as if the code were that of another kernel: its loads issue when those do."""
    return replace(evidence, milestones=_built(label, evidence.workload.B).milestones)


def _evidence(label, workload, **known):
    entry, variant = find_variant(kernels(), "decode", label)
    return Evidence(kernels(), entry, entry.at(variant, workload), workload, **known)
