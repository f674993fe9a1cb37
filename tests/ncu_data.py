"""Reports of an H200, recorded with ncu 2025.3.1."""

import lzma
import stat
from dataclasses import replace
from pathlib import Path

from gdnbench.profile.ncu.quantities import Metric

DATA = Path(__file__).parent / "data" / "ncu"
V1, V4, TRITON, UNFUSED = (DATA / f"decode-{name}-B1.csv.gz" for name in ("v1", "v4", "triton", "fla-unfused"))


def unpack_report(folder):
    """The report of decode-v1 at B=1, three launches, as ncu wrote it."""
    path = folder / "decode-v1-B1.ncu-rep"
    path.write_bytes(lzma.decompress((DATA / f"{path.name}.xz").read_bytes()))
    return path


def with_value(profile, name, value):
    """The profile with another value of a metric."""
    metric = profile.metrics.get(name) or Metric(name, "", value)
    return replace(profile, metrics={**profile.metrics, name: replace(metric, value=value)})


def fake_ncu(folder, body):
    """A program `ncu` that is a shell script; `$report` is the file after --export."""
    path = folder / "ncu"
    find = 'while [ $# -gt 0 ]; do [ "$1" = --export ] && report=$2; shift; done'
    path.write_text(f'#!/bin/sh\necho "$@" > "{folder}/arguments"\n{find}\n{body}\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path
