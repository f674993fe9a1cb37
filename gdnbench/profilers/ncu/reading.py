"""Reads ncu's reports and what is made of them, whichever it is."""

from __future__ import annotations

from pathlib import Path

from gdnbench.doctor.profilers import find_ncu
from gdnbench.errors import ReportFormatError
from gdnbench.profilers.files import check_file, read_text
from gdnbench.profilers.ncu.apart import read_apart
from gdnbench.profilers.ncu.profile import Profile
from gdnbench.profilers.ncu.raw_page import export_page, is_page, parse_page
from gdnbench.profilers.ncu.store import WHAT_IS_READ, parse_profiles
from gdnbench.profilers.ncu.tool import no_ncu

_STORED = (".csv", ".csv.gz")


def read_any(path: Path, ncu: Path | None = None) -> tuple[Profile, ...]:
    """Reads a report of ncu's, profiles that were stored, or ncu's raw page as CSV: the file's end and head tell.

    Args:
        path: the file.
        ncu: where ncu is; searched for if not given, and needed only for a report that nothing else here can read.

    Returns:
        A profile for each launch, in the order of the file; never empty.

    Raises:
        ReportFormatError: for a file that is none of them, or holds nothing.
        MachineError: if nothing on this machine reads reports.
    """
    if not path.name.endswith(_STORED):
        check_file(path, WHAT_IS_READ)
        return _some(path, read_report(path, ncu))
    text = read_text(path, WHAT_IS_READ)
    return _some(path, parse_page(text, path) if is_page(text) else parse_profiles(text, path))


def read_report(path: Path, ncu: Path | None = None) -> tuple[Profile, ...]:
    """Reads a `.ncu-rep`: with the `ncu-report` wheel, else with the module that ncu carries, else through ncu itself.

    Args:
        path: the report.
        ncu: where ncu is; searched for if not given.

    Raises:
        ReportFormatError: if it is no report.
        MachineError: if nothing on this machine reads reports.
    """
    ncu = ncu or find_ncu()
    profiles = read_apart(path, ncu)
    if profiles is not None:
        return profiles
    if ncu is None:
        raise no_ncu("or only read reports: pip install 'gdnbench[ncu]'")
    return export_page(ncu, path)


def _some(path: Path, profiles: tuple[Profile, ...]) -> tuple[Profile, ...]:
    if not profiles:
        raise ReportFormatError(f"{path} holds no profiled launch", WHAT_IS_READ)
    return profiles
