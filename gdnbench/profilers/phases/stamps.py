"""What the warps of a stamped kernel wrote, as it is stored: `profiles/phases/<kernel>/<run>.npz`."""

from __future__ import annotations

import json
import zipfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gdnbench.errors import ProfilerError, RunFormatError
from gdnbench.model import Shape
from gdnbench.stats import FloatArray

WordArray = npt.NDArray[np.uint32]

# A warp's record, in 32-bit words, as phases.cuh writes it; the cycles of each phase follow.
BEGIN_NS, END_NS, SM, TOTAL = range(4)
HEAD = 4
UNWRITTEN = 0xFFFF_FFFF
"""Every word of a record before its warp writes it; no SM has this number."""

_SCHEMA = 1


@dataclass(frozen=True)
class About:
    """What was stamped.

    Attributes:
        op: the op.
        label: the kernel's label.
        shape: the workload.
        gpu: the GPU's name, `NVIDIA H200`.
        arch: its architecture, `sm_90`.
        phases: their names, in the order declared.
        asked: launches asked for.
        registers: per thread of the kernel as it is.
        stamped_registers: per thread of the stamped one.
        stamped_spill_bytes: local memory per thread of the stamped one.
    """

    op: str
    label: str
    shape: Shape
    gpu: str
    arch: str
    phases: tuple[str, ...]
    asked: int
    registers: int
    stamped_registers: int
    stamped_spill_bytes: int


@dataclass(frozen=True)
class Stamps:
    """The records of every warp of every launch, and what stamping costs.

    Attributes:
        about: what was stamped.
        records: an array [launches, warps, 4 + phases] of 32-bit words.
        plain_us: cold times of the kernel as it is, an array [samples], microseconds.
        stamped_us: cold times of the stamped one, between those.
    """

    about: About
    records: WordArray = field(repr=False)
    plain_us: FloatArray = field(repr=False)
    stamped_us: FloatArray = field(repr=False)

    def write(self, path: Path) -> None:
        """Writes the file in one step."""
        about = {"schema": _SCHEMA, **asdict(self.about), "shape": self.about.shape.axes()}
        temporary = path.with_name(path.name + ".new")
        with temporary.open("wb") as file:
            np.savez_compressed(
                file,
                about=np.array(json.dumps(about)),
                records=self.records,
                plain_us=self.plain_us,
                stamped_us=self.stamped_us,
            )
        temporary.replace(path)


def read_stamps(path: Path) -> Stamps:
    """Reads a file of stamps.

    Raises:
        RunFormatError: if it cannot be read, or is no such file.
        ProfilerError: if it holds no record of a launch.
    """
    try:
        with np.load(path, allow_pickle=False) as stored:
            document = json.loads(str(stored["about"]))
            arrays = [stored[name] for name in ("records", "plain_us", "stamped_us")]
        stamps = Stamps(_about(document), *arrays)
        if stamps.records.ndim != 3 or stamps.records.shape[2] != HEAD + len(stamps.about.phases):
            raise ValueError(f"records of {stamps.records.shape} for {len(stamps.about.phases)} phases")
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise RunFormatError(
            f"{path} holds no stamps: {error}", "give --import an .npz file that `gdnbench phases` wrote"
        ) from error
    if not stamps.records.size:
        raise ProfilerError(f"{path} holds no launch", "stamp the kernel again with `gdnbench phases`")
    return stamps


def _about(document: dict[str, Any]) -> About:
    schema = document.pop("schema")
    if schema != _SCHEMA:
        raise ValueError(f"its schema is {schema}, and this gdnbench reads {_SCHEMA}")
    return About(**{**document, "shape": Shape(**document["shape"]), "phases": tuple(document["phases"])})
