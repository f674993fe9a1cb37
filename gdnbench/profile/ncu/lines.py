"""Counters of single instructions: stall samples and sectors, summed up by source line, and the file that keeps them.

ncu samples at which instruction each warp stands, and why it does not issue; what an instruction executed and moved is
of another replay. The file is `<run>.lines.json.gz`, beside the profile's CSV.
"""

from __future__ import annotations

import gzip
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from gdnbench.codec import SchemaError, Text, decode_json
from gdnbench.errors import LeftOutWarning, ReportFormatError
from gdnbench.profile.files import read_content
from gdnbench.store.schema import SmallCount

_AGAIN = "profile again with `gdnbench ncu`, which stores what each instruction did beside the profile"
_STALLS, _TWICE = "smsp__pcsamp_warps_issue_stalled_", "_not_issued"  # the latter are part of the former
_OTHER_NAMES = {"no_instructions": "no_instruction", "warpgroup_arrive": "gmma"}
_TARGET = re.compile(r"\b0x[0-9a-f]{9,16}\b")  # of a branch: an address in that process
_COUNTERS = {
    "executed": "inst_executed",
    "samples": "smsp__pcsamp_sample_count",
    "sectors": "memory_l2_theoretical_sectors_global",
    "ideal_sectors": "memory_l2_theoretical_sectors_global_ideal",
    "wavefronts": "memory_l1_wavefronts_shared",
    "ideal_wavefronts": "memory_l1_wavefronts_shared_ideal",
}
COUNTED = tuple(_COUNTERS)


class ProfiledInstruction(msgspec.Struct, frozen=True, omit_defaults=True):
    """One instruction of a function's first launch: what it is, where it is from, and sums over all warps."""

    function: Text
    address: SmallCount  # bytes from the function's first instruction
    sass: Text
    line: Text = ""  # of the source, with its folder, `v4/kernel.cu:18`; empty where the report has none
    executed: SmallCount = 0  # times that a warp executed it
    samples: SmallCount = 0  # of warps that stood at it
    stalls: dict[Text, SmallCount] = {}  # samples by warp state, the most frequent first
    sectors: SmallCount = 0  # of global memory that it asks the L2 for
    ideal_sectors: SmallCount = 0  # that would hold as many bytes
    wavefronts: SmallCount = 0  # of shared memory
    ideal_wavefronts: SmallCount = 0  # without bank conflicts


@dataclass(frozen=True)
class ProfiledLine:
    """One source line of a launch, and its instructions, those with most samples first."""

    line: str
    instructions: tuple[ProfiledInstruction, ...]

    def total(self, counter: str) -> int:
        """The sum of a counter over its instructions."""
        return sum(getattr(each, counter) for each in self.instructions)

    @property
    def stall(self) -> tuple[str, float]:
        """The most frequent state of warps at it, and its share of the samples; empty and 0 without samples."""
        reasons = sum((Counter(each.stalls) for each in self.instructions), Counter[str]())
        return next(((name, count / reasons.total()) for name, count in reasons.most_common(1)), ("", 0.0))


def profiled_lines(instructions: Iterable[ProfiledInstruction], function: str) -> tuple[ProfiledLine, ...]:
    """Groups a function's instructions by source line; lines with most samples first."""
    found: dict[str, list[ProfiledInstruction]] = {}
    for each in sorted(instructions, key=lambda each: -each.samples):
        if each.function == function:
            found.setdefault(each.line, []).append(each)
    lines = (ProfiledLine(line, tuple(group)) for line, group in found.items())
    return tuple(sorted(lines, key=lambda line: (-line.total("samples"), -line.total("executed"))))


def stored_lines(path: Path, function: str) -> tuple[ProfiledLine, ...]:
    """The source lines of a function of a profile; none without a file of them, or, with a warning, a damaged one."""
    try:
        return profiled_lines(read_lines(lines_path(path)), function) if lines_path(path).is_file() else ()
    except ReportFormatError as error:
        warnings.warn(f"lines are left out: {error.message}", LeftOutWarning, stacklevel=2)
        return ()


def instructions_of(action: Any) -> Iterator[ProfiledInstruction]:
    """Yields the instructions of a launch as NVIDIA's module `ncu_report` has them, in the order of their addresses."""
    counters = {counter: _by_address(action, name) for counter, name in _COUNTERS.items()}
    stalls = [name for name in action.metric_names() if name.startswith(_STALLS) and not name.endswith(_TWICE)]
    reasons = {_reason(name): _by_address(action, name) for name in sorted(stalls)}
    first = min(counters["executed"], default=0)
    for address in sorted(counters["executed"]):
        found = action.source_info(address)
        samples = Counter({reason: counts[address] for reason, counts in reasons.items() if counts.get(address)})
        yield ProfiledInstruction(
            function=str(action.name()),
            address=address - first,
            sass=_TARGET.sub(
                lambda target: f"{int(target[0], 16) - first:#x}", " ".join(action.sass_by_pc(address).split())
            ),
            line=f"{'/'.join(Path(found.file_name()).parts[-2:])}:{found.line()}" if found else "",
            stalls=dict(samples.most_common()),
            **{counter: counts.get(address, 0) for counter, counts in counters.items()},
        )


def _reason(metric: str) -> str:
    """Returns the warp state that a metric samples, by the name that it has among the counted ones."""
    state = metric.removeprefix(_STALLS)
    return _OTHER_NAMES.get(state, state)


def _by_address(action: Any, name: str) -> dict[int, int]:
    metric = action.metric_by_name(name) if name in action.metric_names() else None
    if metric is None or not metric.has_correlation_ids():
        return {}
    addresses = metric.correlation_ids()
    return {int(addresses.as_uint64(i)): int(metric.as_uint64(i)) for i in range(metric.num_instances())}


def lines_path(path: Path) -> Path:
    """Where the instructions of a profile lie: beside its `.ncu-rep`, `.csv` or `.csv.gz`."""
    stem = path.name.removesuffix(".gz").removesuffix(".csv").removesuffix(".ncu-rep")
    return path.with_name(f"{stem}.lines.json.gz")


def write_lines(path: Path, instructions: Iterable[ProfiledInstruction]) -> None:
    """Writes instructions as a list in JSON, gzipped; the same ones make the same file."""
    path.write_bytes(gzip.compress(msgspec.json.encode(list(instructions)), mtime=0))


def read_lines(path: Path) -> tuple[ProfiledInstruction, ...]:
    """Reads what `write_lines` wrote; raises ReportFormatError if there is no such file, or it is damaged."""
    try:
        return decode_json(read_content(path, _AGAIN, _AGAIN), tuple[ProfiledInstruction, ...])
    except SchemaError as error:
        raise ReportFormatError(f"{path}: {error}", _AGAIN) from error
