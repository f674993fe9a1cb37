"""The file of a trace: Proton's JSON, gzipped, and in it what it is a trace of.

A trace is in Chrome's Trace Event Format, whose member `otherData` is for whatever else there is to say of it.
"""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Annotated, BinaryIO

import msgspec
from msgspec import Meta

from gdnbench.errors import ReportFormatError
from gdnbench.profilers.fields import Source, Text, decode
from gdnbench.profilers.files import read_content

AGAIN = "record it again with `gdnbench proton`"
_KERNEL, _SOURCE = "gdnbench_kernel", "gdnbench_source"
_FARTHEST = 2.0**53  # microseconds, beyond which a `ts` has no fraction

Time = Annotated[float, Meta(ge=-_FARTHEST, le=_FARTHEST)]


class Pass(msgspec.Struct, frozen=True):
    """One pass of one warp through one scope."""

    name: Text
    pid: Text
    tid: Text
    ts: Time
    dur: Time


class Origin(msgspec.Struct, frozen=True):
    """What a trace is of; nothing in one of before this was recorded, or that is not gdnbench's."""

    label: Text = msgspec.field(default="", name=_KERNEL)
    source: Source = msgspec.field(default="", name=_SOURCE)


class TraceFile(msgspec.Struct, frozen=True):
    """A trace's members that are read."""

    events: list[Pass] = msgspec.field(name="traceEvents")
    origin: Origin = msgspec.field(default=Origin(), name="otherData")


def write_trace(written: BinaryIO, path: Path, *, label: str, source: str) -> None:
    """Keeps what Proton wrote: Perfetto opens gzipped traces, which are a twentieth as large.

    Args:
        written: Proton's file, opened.
        path: the file to write.
        label: the kernel's label, and
        source: hash of its sources, which go in front of the rest.
    """
    origin = json.dumps({"otherData": {_KERNEL: label, _SOURCE: source}}).encode()
    with gzip.open(path, "wb", compresslevel=6) as packed:
        first = written.read(1)
        packed.write(origin[:-1] + b"," if first == b"{" else first)
        shutil.copyfileobj(written, packed)


def read_file(path: Path) -> TraceFile:
    """Reads a trace, plain or gzipped; without events where Proton left an empty file, of a kernel without scopes.

    Raises:
        ReportFormatError: if it cannot be read, is cut off, or another tool's.
    """
    content = read_content(path, AGAIN)
    if not content.strip():
        return TraceFile(events=[])
    try:
        return decode(content, TraceFile)
    except msgspec.ValidationError as error:
        raise ReportFormatError(f"{path} is not a trace of Proton's instrumentation: {error}", AGAIN) from error
    except ValueError as error:
        raise ReportFormatError(f"{path} is cut off, or no trace: {error}", AGAIN) from error
