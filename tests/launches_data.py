"""Profiles of `gemm-split`, a toy of two launches, as a GPU would leave them."""

from dataclasses import replace
from pathlib import Path

from gdnbench.catalog.catalog import default_roots, load_catalog
from gdnbench.profile.ncu.store import read_profiles, write_profiles

TOYS = Path(__file__).parent / "toys"
RECORDED = Path(__file__).parent / "data" / "ncu"
FUNCTIONS = {"partial_sums": "decode-v1-B1", "add_sums": "decode-v4-B1"}
"""The launches of gemm-split, each with the recording whose counters stand for its own."""


def toys():
    return load_catalog([*default_roots(), TOYS])


def split_profiles(source=None, functions=FUNCTIONS, launches=1):
    """Profiles of both launches of gemm-split at M=64; of the code as it is now unless told otherwise."""
    entry = toys().entries["gemm-split"]
    source = entry.source_hash() if source is None else source
    told = {"label": "gemm-split", "op": "gemm", "workload": entry.op.default, "source": source}
    return [
        replace(profile, function=function, launch=number, **told)
        for function, name in functions.items()
        for number, profile in enumerate(read_profiles(RECORDED / f"{name}.csv.gz")[:launches])
    ]


def store_profile(profiles, day=2, **told):
    """Stores a profile of gemm-split of a day of January; gives its file."""
    folder = profiles / "ncu" / "gemm-split"
    folder.mkdir(parents=True, exist_ok=True)
    workload = toys().ops["gemm"].default
    path = folder / f"202601{day:02}-030405-h200-{workload.slug}.csv"
    write_profiles(path, split_profiles(**told))
    return path
