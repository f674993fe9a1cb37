"""Files of profiles, `profiles/<profiler>/<kernel>/<run>.<suffix>`: paths, bounded reads, and shared fields."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, TypedDict, TypeVar

import msgspec
from msgspec import Meta

from gdnbench.catalog.catalog import op_named
from gdnbench.codec import SchemaError, Text, Word, decode_json, unpack
from gdnbench.errors import GdnbenchError, MachineError, ReportFormatError
from gdnbench.model.case import Case, Variant
from gdnbench.model.declaration import Params
from gdnbench.model.status import Role
from gdnbench.model.workload import Workload
from gdnbench.origin import is_file
from gdnbench.store.schema import AxisSize, SmallCount

T = TypeVar("T")

_GZIP = b"\x1f\x8b"
_NAME = re.compile(r"(?P<time>\d{8}-\d{6})-(?P<gpu>[a-z0-9]+)-(?P<shape>.+)")

FileName = Annotated[str, Meta(pattern=r"^[^/\\\x00-\x1f\x7f]*\Z")]
"""The name of a file in the same folder, never a path out of it."""

SourceHash = Annotated[str, Meta(pattern=r"^(?:(?:2:)?[0-9a-f]{16})?\Z")]
"""Hash of a kernel's sources; empty in files from before gdnbench recorded it."""

SHORTEST_LAUNCH_US, LONGEST_LAUNCH_US = 1e-3, 1e9
"""Limits of a launch's duration: a nanosecond and a quarter of an hour."""

LaunchMicroseconds = Annotated[float, Meta(ge=SHORTEST_LAUNCH_US, le=LONGEST_LAUNCH_US)]


SizeFields = dict[Word, AxisSize | Annotated[list[SmallCount], Meta(min_length=1)]]
"""A workload's axes and lists as documents store them."""


def stored_workload(sizes: Mapping[str, int | Sequence[int]], op: str, profile: str = "") -> Workload:
    """Returns the workload of a stored profile; raises ValueError for an unknown op, or sizes that fit no workload."""
    try:
        declared = op_named(op)
        return declared.checked(declared.workloads.stored(sizes, profile=profile))
    except GdnbenchError as error:
        raise ValueError(f"shape: {error.message}") from error


class CaseFields(msgspec.Struct, frozen=True):
    """A case as `Case.to_dict` writes it."""

    kernel: Word
    label: Word
    preset: Text
    params: dict[Word, int | Text]
    shape: SizeFields
    role: Role
    profile: Text = ""

    def case(self, op: str) -> Case:
        """Returns the case; raises ValueError if the sizes fit no workload of the op."""
        variant = Variant(self.kernel, self.label, preset=self.preset, params=Params(self.params))
        return Case(variant, stored_workload(self.shape, op, self.profile), self.role)


class _Versioned(TypedDict):
    schema: int


def decode_document(text: str | bytes, schema: type[T], version: int) -> T:
    """Decodes JSON whose field `schema` must equal `version`; raises SchemaError otherwise, and as `decode_json`."""
    found = decode_json(text, _Versioned)["schema"]
    if found != version:
        raise SchemaError(f"schema: it is {found}, and this gdnbench reads {version}")
    return decode_json(text, schema)


def check_file(path: Path, hint: str) -> None:
    """Raises ReportFormatError for what is not a file."""
    if not is_file(path):
        raise ReportFormatError(f"{path}: there is no such file", hint)


def read_content(path: Path, hint: str, missing: str = "those that are stored lie in profiles") -> bytes:
    """Returns a file's content, unpacked if gzipped; raises ReportFormatError, whose hint is `missing` for no file."""
    check_file(path, missing)
    try:
        content = path.read_bytes()
        return unpack(content) if content.startswith(_GZIP) else content
    except (OSError, ValueError) as error:
        raise ReportFormatError(f"{path} cannot be read: {error}", hint) from error


def read_text(path: Path, hint: str) -> str:
    """Returns the content of a file as text; raises ReportFormatError as `read_content`, and if it is not UTF-8."""
    try:
        return read_content(path, hint).decode()
    except UnicodeDecodeError as error:
        raise ReportFormatError(f"{path} cannot be read: {error}", hint) from error


def profile_name(case: Case, gpu: str, now: datetime | None = None, *, entry: str = "") -> str:
    """The name of a profile's files without suffix: `20261121-203000-h200-B1-qk4_v8`; `now` is UTC."""
    name = f"{now or datetime.now(UTC):%Y%m%d-%H%M%S}-{gpu}-{case.workload.slug}"
    return f"{name}.{entry}" if entry else name


def unused_name(folder: Path, case: Case, gpu: str, suffix: str) -> str:
    """Returns the name of a new profile: of this second, or of the next one without a file of this suffix."""
    now = datetime.now(UTC)
    while (folder / f"{profile_name(case, gpu, now)}{suffix}").exists():
        now += timedelta(seconds=1)
    return profile_name(case, gpu, now)


def make_folder(profiles: Path, profiler: str, label: str) -> Path:
    """Makes the folder of a kernel's profiles: `decode-triton_BV=16` for `decode-triton:BV=16`; raises MachineError."""
    folder = _folder(profiles, profiler, label)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MachineError(f"cannot write to {profiles}: {error}", "choose another folder with --profiles") from error
    return folder


def find_files(
    profiles: Path, profiler: str, label: str, workload: Workload, *, suffix: str, gpu: str | None = None
) -> tuple[Path, ...]:
    """Returns the files of a kernel at a workload, newest first; raises ReportFormatError for an unreadable folder."""
    folder = _folder(profiles, profiler, label)
    try:
        names = [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return ()
    except OSError as error:
        hint = "give yourself the right to read it, or choose another folder with --profiles"
        raise ReportFormatError(f"{folder} cannot be read: {error.strerror}", hint) from error
    found = []
    for name in names:
        parts = _NAME.fullmatch(name.removesuffix(suffix)) if name.endswith(suffix) else None
        if parts and parts["shape"] == workload.slug and gpu in {None, parts["gpu"]}:
            found.append((parts["time"], folder / name))
    return tuple(path for _, path in sorted(found, reverse=True))


def _folder(profiles: Path, profiler: str, label: str) -> Path:
    return profiles / profiler / re.sub(r"[^A-Za-z0-9._=@-]+", "_", label)
